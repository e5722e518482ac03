package kernelstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"penstock/kernels"
)

// Exchange is a library through which devices of one process add up. As NCCL does, a rank waits for the others for ever, and
// one that has left leaves them waiting. It is safe for concurrent use.
type Exchange struct {
	mu      sync.Mutex
	changed chan struct{}
	rooms   []*room
	open    int
	joined  int
	wrong   []string
	fail    func(p kernels.Peer, step string) error
	behind  map[kernels.Peer]bool // devices that have not done their work yet
}

// room is a communicator.
type room struct {
	ranks   int
	members []int
	left    bool          // by one of them
	sums    [][][]float32 // what each rank has put into each sum, nil before it has
}

// Exchanged is what has come about in an exchange.
type Exchanged struct {
	Invited, Joined, Open int      // communicators, their ranks in all, those that are not closed
	Waiting               int      // ranks that have begun, in the newest communicator, what another has not
	Sums                  int      // of all communicators, complete
	Elements, Longest     int      // of these sums: all, those of the longest
	Wrong                 []string // what no user may do
}

// NewExchange returns one that nobody has used.
func NewExchange() *Exchange { return &Exchange{changed: make(chan struct{})} }

// Device is a device that can join others of the exchange.
func (e *Exchange) Device(dev kernels.Device, p kernels.Peer) kernels.Device {
	return &guest{Device: dev, ex: e, peer: p}
}

// Hold has the marks of a device not be reached, until it is let go.
func (e *Exchange) Hold(p kernels.Peer, held bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.behind == nil {
		e.behind = map[kernels.Peer]bool{}
	}
	e.behind[p] = held
}

// Fail has steps fail as f says: "invite", "join", "mark" or "sum", at a device. nil ends that.
func (e *Exchange) Fail(f func(p kernels.Peer, step string) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail = f
}

// State returns what has come about.
func (e *Exchange) State() Exchanged {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state()
}

func (e *Exchange) state() Exchanged {
	s := Exchanged{Invited: len(e.rooms), Joined: e.joined, Open: e.open, Wrong: slices.Clone(e.wrong)}
	for _, r := range e.rooms {
		for _, sum := range r.sums {
			if !slices.ContainsFunc(sum, missing) {
				s.Sums++
				s.Elements += len(sum[0])
				s.Longest = max(s.Longest, len(sum[0]))
			}
		}
	}
	if len(e.rooms) == 0 {
		return s
	}
	r := e.rooms[len(e.rooms)-1]
	if len(r.members) < r.ranks {
		s.Waiting = len(r.members)
	} else if n := len(r.sums); n > 0 && slices.ContainsFunc(r.sums[n-1], missing) {
		for _, v := range r.sums[n-1] {
			if !missing(v) {
				s.Waiting++
			}
		}
	}
	return s
}

func missing(v []float32) bool { return v == nil }

// Await waits for a state.
func (e *Exchange) Await(ctx context.Context, ok func(Exchanged) bool) error {
	return e.await(ctx, func() bool { return ok(e.state()) })
}

// await waits for what ok looks at under the lock.
func (e *Exchange) await(ctx context.Context, ok func() bool) error {
	for {
		e.mu.Lock()
		done, changed := ok(), e.changed
		e.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// change lets f change the state.
func (e *Exchange) change(f func() error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.changed)
	e.changed = make(chan struct{})
	return f()
}

func (e *Exchange) bad(format string, args ...any) {
	e.wrong = append(e.wrong, fmt.Sprintf(format, args...))
}

// guest is a device of an exchange.
type guest struct {
	kernels.Device
	ex   *Exchange
	peer kernels.Peer
}

var _ kernels.Collective = (*guest)(nil)

func (g *guest) fault(step string) error {
	g.ex.mu.Lock()
	defer g.ex.mu.Unlock()
	if g.ex.fail == nil {
		return nil
	}
	return g.ex.fail(g.peer, step)
}

func (g *guest) Peer() (kernels.Peer, error) { return g.peer, nil }

func (g *guest) Invite() (id []byte, err error) {
	if err := g.fault("invite"); err != nil {
		return nil, err
	}
	err = g.ex.change(func() error {
		id = fmt.Appendf(nil, "%d", len(g.ex.rooms))
		g.ex.rooms = append(g.ex.rooms, &room{})
		return nil
	})
	return id, err
}

func (g *guest) Join(ctx context.Context, id []byte, rank, ranks int) (kernels.Comm, error) {
	if err := g.fault("join"); err != nil {
		return nil, err
	}
	e := g.ex
	r := &room{}
	err := e.change(func() error {
		var n int
		if _, err := fmt.Sscan(string(id), &n); err != nil || n < 0 || n >= len(e.rooms) {
			e.bad("join of %q, to which nobody has invited", id)
		} else {
			r = e.rooms[n]
		}
		if r.ranks != 0 && r.ranks != ranks || slices.Contains(r.members, rank) {
			e.bad("%s of %d is joined as rank %d of %d beside %v", id, r.ranks, rank, ranks, r.members)
		}
		r.ranks, r.members = ranks, append(r.members, rank)
		return nil
	})
	if err == nil {
		err = e.await(ctx, func() bool { return len(r.members) == ranks && !r.left }) // who comes after one has left waits in vain
	}
	if err != nil {
		return nil, errors.Join(err, e.change(func() error { r.left = true; return nil }))
	}
	return &seat{g: g, r: r, rank: rank}, e.change(func() error { e.open++; e.joined++; return nil })
}

// seat is a rank of a room.
type seat struct {
	g    *guest
	r    *room
	rank int
	dsts []kernels.Tensor // of the sums not waited for yet
	done int              // sums waited for
	gone bool
}

// Mark waits for the others' latest sum, as a library that has yet to reach them for it.
func (s *seat) Mark() func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		if err := s.g.fault("mark"); err != nil {
			return false, err
		}
		err := s.g.ex.await(ctx, func() bool {
			n := s.done + len(s.dsts)
			return s.gone || n == 0 || !slices.ContainsFunc(s.r.sums[n-1], missing)
		})
		if err != nil {
			return false, err
		}
		s.g.ex.mu.Lock()
		defer s.g.ex.mu.Unlock()
		if s.gone {
			return false, errors.New("a mark in a communicator that was left")
		}
		return !s.g.ex.behind[s.g.peer], nil
	}
}

func (s *seat) AllReduce(dst, src kernels.Tensor) {
	v := make([]float32, src.Len())
	s.g.Download(v, src)
	_ = s.g.ex.change(func() error {
		if s.gone {
			s.g.ex.bad("a sum in a communicator that was left")
		}
		n := s.done + len(s.dsts)
		for len(s.r.sums) <= n {
			s.r.sums = append(s.r.sums, make([][]float32, s.r.ranks))
		}
		s.r.sums[n][s.rank] = v
		s.dsts = append(s.dsts, dst)
		return nil
	})
}

func (s *seat) Wait(ctx context.Context) error {
	if err := s.g.fault("sum"); err != nil {
		return err
	}
	e := s.g.ex
	for len(s.dsts) > 0 {
		var all [][]float32
		err := e.await(ctx, func() bool {
			all = s.r.sums[s.done]
			return !slices.ContainsFunc(all, missing)
		})
		if err != nil {
			return err
		}
		sum := make([]float32, s.dsts[0].Len())
		for _, v := range all {
			for i := range sum {
				sum[i] += v[i]
			}
		}
		s.g.Upload(s.dsts[0], sum)
		s.dsts, s.done = s.dsts[1:], s.done+1
	}
	return s.g.Sync()
}

func (s *seat) Close() error {
	return s.g.ex.change(func() error {
		if s.gone {
			return errors.New("left twice")
		}
		s.gone, s.r.left = true, true
		s.g.ex.open--
		return nil
	})
}
