package reduce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"penstock/broker/policy"
	"penstock/kernels"
	"penstock/kernels/kernelstest"
	"penstock/kernels/mem"
	"penstock/schema"
)

// crew is ranks whose devices can join each other.
type crew struct {
	t       testing.TB
	dir     string
	ex      *kernelstest.Exchange
	log     locked
	made    int
	infos   map[policy.Member]schema.PoolInfo
	members []policy.Member
	groups  map[policy.Member]*Collective
	devices map[policy.Member]*far
	peers   map[policy.Member]kernels.Peer
}

func assemble(t testing.TB, ranks int) *crew {
	dir, err := os.MkdirTemp("", "reduce")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &crew{t: t, dir: dir, ex: kernelstest.NewExchange(), infos: map[policy.Member]schema.PoolInfo{},
		groups: map[policy.Member]*Collective{}, devices: map[policy.Member]*far{}, peers: map[policy.Member]kernels.Peer{}}
	for i := range ranks {
		c.enlist(fmt.Sprintf("draft-%d", i+1), kernels.Peer{Library: "exchange 1", Processor: fmt.Sprint(i)})
	}
	return c
}

// enlist adds a rank, or the next process of one.
func (c *crew) enlist(rank string, peer kernels.Peer) policy.Member {
	c.made++
	m := policy.Member{Rank: rank, Incarnation: uint64(c.made)}
	memory := &far{}
	d := c.ex.Device(memory, peer)
	s, err := Share(d, m, c.dir, 1, elements, c.find)
	if err != nil {
		c.t.Fatal(err)
	}
	c.infos[m], c.devices[m], c.peers[m] = s.Info(), memory, peer
	c.groups[m] = Collect(s, d.(kernels.Collective), peer, slog.New(slog.NewTextHandler(&c.log, nil)))
	c.members = append(c.members, m)
	return m
}

func (c *crew) find(_ context.Context, m policy.Member) (schema.PoolInfo, error) {
	if info, ok := c.infos[m]; ok {
		return info, nil
	}
	return schema.PoolInfo{}, mem.ErrStale
}

// dismiss ends a rank's process as far as the others can see.
func (c *crew) dismiss(m policy.Member) {
	if err := c.groups[m].Close(); err != nil {
		c.t.Errorf("%s: %v", m.Rank, err)
	}
	delete(c.groups, m)
	c.members = slices.DeleteFunc(c.members, func(o policy.Member) bool { return o == m })
}

// disband ends all, and holds that nobody has done what nobody may.
func (c *crew) disband() {
	for _, m := range slices.Clone(c.members) {
		c.dismiss(m)
	}
	if s := c.ex.State(); s.Open != 0 || len(s.Wrong) > 0 {
		c.t.Errorf("at the end: %+v", s)
	}
}

// bring gives members their parts of a round and returns the sum that is due.
func (c *crew) bring(r Round, members []policy.Member) []float32 {
	want := make([]float32, elements)
	for i, m := range members {
		part := kernels.Host(1, elements, make([]float32, elements))
		fill(part, float64(r.Window)+float64(i)/7)
		g := c.groups[m]
		g.Withdraw()
		c.devices[m].Upload(g.Part(0), part.F32)
		for k, v := range part.F32 {
			want[k] += v
		}
		if err := g.Bring(r, 0, []byte("note of "+m.Rank)); err != nil {
			c.t.Fatalf("%s: %v", m.Rank, err)
		}
	}
	return want
}

// outcome is what a member's Sum gave.
type outcome struct {
	total []float32
	notes [][]byte
	err   error
}

// sum has members sum a round of parts, at the same time.
func (c *crew) sum(ctx context.Context, r Round, parts, members []policy.Member) []outcome {
	var list []Part
	for _, m := range parts {
		list = append(list, Part{Member: m})
	}
	outcomes := make([]outcome, len(members))
	var wait sync.WaitGroup
	for i, m := range members {
		total := c.devices[m].Alloc(1, elements)
		wait.Go(func() {
			notes, err := c.groups[m].Sum(ctx, r, list, total)
			outcomes[i] = outcome{c.devices[m].at(total), notes, err}
		})
	}
	wait.Wait()
	return outcomes
}

// round has all members bring and sum, and holds that all get what is due.
func (c *crew) round(r Round) {
	want := c.bring(r, c.members)
	for i, o := range c.sum(context.Background(), r, c.members, c.members) {
		if o.err != nil || !slices.Equal(o.total, want) {
			c.t.Fatalf("%+v: %s gets %v, %v; want %v", r, c.members[i].Rank, o.total[:3], o.err, want[:3])
		}
		for k, m := range c.members {
			if string(o.notes[k]) != "note of "+m.Rank {
				c.t.Fatalf("%+v: note %d at %s is %q", r, k, c.members[i].Rank, o.notes[k])
			}
		}
	}
}

// locked is text that several goroutines write.
type locked struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestDevicesAddUpThemselves(t *testing.T) {
	c := assemble(t, 3)
	defer c.disband()
	for window := range uint32(5) {
		c.round(Round{1, window, 2})
	}
	if s := c.ex.State(); s.Invited != 1 || s.Joined != 3 {
		t.Errorf("5 rounds of an epoch: %+v", s)
	}
	c.enlist("draft-4", kernels.Peer{Library: "exchange 1", Processor: "3"})
	c.round(Round{1, 5, 3})
	if s := c.ex.State(); s.Invited != 2 || s.Open != 4 {
		t.Errorf("after a fourth rank's coming: %+v", s)
	}
	if strings.Contains(c.log.String(), "host memory") || !strings.Contains(c.log.String(), `library="exchange 1" ranks=4`) {
		t.Errorf("log: %s", c.log.String())
	}
}

// What one member cannot do, none does: the round is summed through the host's memory, and so are those after it until the rank
// epoch is over.
func TestRoundsThatGoThroughTheHost(t *testing.T) {
	broken := errors.New("broken")
	at := func(n int, where string) func(c *crew) {
		return func(c *crew) {
			culprit := c.peers[c.members[n]]
			c.ex.Fail(func(p kernels.Peer, step string) error {
				if p == culprit && step == where {
					return broken
				}
				return nil
			})
		}
	}
	for name, spoil := range map[string]func(*crew){
		"the first cannot invite":         at(0, "invite"),
		"the first cannot join":           at(0, "join"),
		"another cannot join":             at(2, "join"),
		"a sum fails at the first":        at(0, "sum"),
		"a sum fails at another":          at(1, "sum"),
		"two are on one processor":        func(c *crew) { c.groups[c.members[1]].peer.Processor = "0" },
		"one has another library":         func(c *crew) { c.groups[c.members[2]].peer.Library = "exchange 2" },
		"one has no library":              func(c *crew) { c.groups[c.members[1]].barred = true; c.groups[c.members[1]].epoch = [2]uint32{1, 2} },
		"one has left the communicator":   func(c *crew) { c.round(Round{1, 0, 2}); c.groups[c.members[1]].leave() },
		"one has another communicator":    func(c *crew) { c.round(Round{1, 0, 2}); c.groups[c.members[0]].id = []byte("other") },
		"the library is lost in an epoch": func(c *crew) { c.round(Round{1, 0, 2}); at(2, "sum")(c) },
	} {
		t.Run(name, func(t *testing.T) {
			c := assemble(t, 3)
			defer c.disband()
			spoil(c)
			c.round(Round{1, 1, 2})
			c.ex.Fail(nil)
			c.round(Round{1, 2, 2})
			if s := c.ex.State(); s.Open != 0 || !strings.Contains(c.log.String(), "host memory") {
				t.Errorf("%+v, log %s", s, c.log.String())
			}
			for _, m := range c.members {
				c.groups[m].peer = c.peers[m]
			}
			c.round(Round{1, 3, 3})
			if s := c.ex.State(); s.Open != 3 {
				t.Errorf("in the next epoch: %+v", s)
			}
		})
	}
}

// A member that dies leaves the others waiting until the rank epoch is over; then they form another communicator.
func TestADeadMemberEndsTheCommunicator(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		t.Run(fmt.Sprintf("in its first round %v", fresh), func(t *testing.T) {
			c := assemble(t, 3)
			defer c.disband()
			if !fresh {
				c.round(Round{1, 0, 2})
			}
			r, all := Round{1, 1, 2}, slices.Clone(c.members)
			c.bring(r, all)
			ctx, cancel := context.WithCancelCause(t.Context())
			over := errors.New("the rank epoch is over")
			var dying errgroup.Group
			dead := all[2]
			dying.Go(func() error { // once the others are in the sum, or wait for it to join
				err := c.ex.Await(ctx, func(s kernelstest.Exchanged) bool { return s.Waiting == 2 })
				if err == nil {
					err = c.groups[dead].Close()
				}
				if err == nil { // the others have noticed, and given up
					err = c.ex.Await(ctx, func(s kernelstest.Exchanged) bool { return s.Open == 0 })
				}
				cancel(over)
				return err
			})
			for i, o := range c.sum(ctx, r, all, all[:2]) {
				if !errors.Is(o.err, over) {
					t.Errorf("member %d: %v", i, o.err)
				}
			}
			if err := dying.Wait(); err != nil {
				t.Fatal(err)
			}
			delete(c.groups, dead)
			c.members = all[:2:2]
			c.round(Round{1, 1, 3})
			c.enlist(dead.Rank, c.peers[dead])
			c.round(Round{1, 2, 4})
			if s := c.ex.State(); s.Open != 3 || strings.Contains(c.log.String(), "host memory") {
				t.Errorf("%+v, log %s", s, c.log.String())
			}
		})
	}
}

// Whatever fails, and whenever a round is given up: members that sum get the same sum, a ctx that ends ends every Sum, ids are
// joined once, and in the next epoch all is well.
func TestNoRoundHangs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := assemble(t, rapid.IntRange(2, 3).Draw(rt, "ranks"))
		defer c.disband()
		r := Round{1, 0, 1}
		for range rapid.IntRange(1, 6).Draw(rt, "rounds") {
			r.Window++
			step := rapid.SampledFrom([]string{"", "", "invite", "join", "sum"}).Draw(rt, "fails at")
			culprit := c.peers[c.members[rapid.IntRange(0, len(c.members)-1).Draw(rt, "culprit")]]
			c.ex.Fail(func(p kernels.Peer, at string) error {
				if p == culprit && at == step {
					return errors.New("fault at " + at)
				}
				return nil
			})
			if rapid.Bool().Draw(rt, "given up") {
				absent := rapid.IntRange(0, len(c.members)-1).Draw(rt, "absent")
				present := slices.Delete(slices.Clone(c.members), absent, absent+1)
				var want []float32 // if the absent one goes only after it has brought its part
				if rapid.Bool().Draw(rt, "brought by all") {
					want = c.bring(r, c.members)
				} else {
					c.bring(r, present)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				over := errors.New("the rank epoch is over")
				go cancel(over)
				for _, o := range c.sum(ctx, r, c.members, present) {
					if !errors.Is(o.err, over) && (o.err != nil || want == nil || !slices.Equal(o.total, want)) {
						rt.Fatalf("%+v without %d: %v", r, absent, o.err)
					}
				}
				r.Epoch++
				continue
			}
			c.round(r)
			if rapid.Bool().Draw(rt, "another epoch") {
				r.Epoch++
			}
		}
		c.ex.Fail(nil)
		c.round(Round{1, r.Window + 1, r.Epoch + 1})
		if s := c.ex.State(); s.Open != len(c.members) {
			rt.Fatalf("in the next epoch: %+v", s)
		}
	})
}
