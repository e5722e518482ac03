package reduce

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"penstock/kernels"
	"penstock/kernels/mem"
)

// Collective is a group whose members' devices add up their parts themselves, through a library. What the members tell each
// other lies in their slabs, as that of [Shared] does. Its members may be in one group with those of [Shared]: a round in
// which somebody has laid its part out, because its device cannot take part or the library has failed it, is summed as
// [Shared] does, by all, and so are the rounds after it until the rank epoch is over.
//
// A member is at one stage after the other in a round: perhaps early, brought, perhaps invited, summed; or at any of them parted,
// then laid, from where nothing goes back. It has the communicator's sum only once all are summed, so all have it or none.
type Collective struct {
	*Shared
	lib  kernels.Collective
	peer kernels.Peer
	log  *slog.Logger

	epoch  [2]uint32    // generation and rank epoch that what follows is of
	barred bool         // from communicators
	id     []byte       // of the communicator
	comm   kernels.Comm // nil before it is joined, and after
	ahead  *ahead       // the sum that has begun already, with the communicator; nil if none has
	failed error        // of it
	sums   int          // of the communicator, all members being there
	early  int          // of them, sums that stood when the parts were brought
	took   time.Duration
}

var (
	errLaid  = errors.New("another rank cannot take part")
	errGone  = errors.New("another rank has ended")
	errUnfit = errors.New("the ranks' devices do not fit together")
)

// Collect makes a group of one that other devices can read the parts of. It has one part, on a device that can join others
// as peer says.
func Collect(s *Shared, lib kernels.Collective, peer kernels.Peer, log *slog.Logger) *Collective {
	return &Collective{Shared: s, lib: lib, peer: peer, log: log}
}

// Bring implements [Group].
func (c *Collective) Bring(r Round, i int, note []byte) error {
	if epoch := [2]uint32{r.Gen, r.Epoch}; epoch != c.epoch {
		if err := c.leave(); err != nil {
			return err
		}
		c.epoch, c.barred = epoch, false
	}
	c.failed = nil
	if c.barred {
		return c.Shared.Bring(r, i, note)
	}
	if err := c.alone.Bring(r, i, note); err != nil {
		return err
	}
	if c.ahead != nil {
		if c.failed = c.ahead.settle(); c.failed != nil {
			err := c.leave()
			return errors.Join(err, c.Shared.Bring(r, i, note))
		}
	}
	return c.tell(r, brought)
}

// leave gives the communicator up.
func (c *Collective) leave() error {
	comm, a := c.comm, c.ahead
	c.comm, c.id, c.ahead, c.barred = nil, nil, nil, true
	if comm == nil {
		return nil
	}
	if c.sums > 0 {
		c.log.Info("ranks have added up on their devices", "epoch", c.epoch[1], "sums", c.sums, "early", c.early,
			"each_in", (c.took / time.Duration(c.sums)).Round(time.Microsecond))
	}
	c.sums, c.early, c.took = 0, 0, 0
	if a != nil {
		a.cancel(errVain)
		<-a.done
		if a.err != nil { // it has closed the communicator
			return a.closed
		}
	}
	return comm.Close()
}

// Withdraw implements [Group].
func (c *Collective) Withdraw() {
	if c.ahead != nil {
		if err := c.leave(); err != nil {
			c.log.Warn("a communicator was not left in order", "epoch", c.epoch[1], "err", err)
		}
	}
	c.Shared.Withdraw()
}

// Sum implements [Group].
func (c *Collective) Sum(ctx context.Context, r Round, parts []Part, total kernels.Tensor) ([][]byte, error) {
	if c.failed != nil {
		return c.throughHost(ctx, r, parts, total, c.failed)
	}
	if c.barred {
		return c.Shared.Sum(ctx, r, parts, total)
	}
	notes, why := c.together(ctx, r, parts, total)
	if why == nil {
		c.slab.SetGeneration(0, uint64(r.word(summed, 0))) // the note stays: of a sum that began early, others may be behind
		all, err := c.all(ctx, r, parts)
		if all || err != nil {
			return notes, err
		}
		why = errLaid
	}
	if err := c.leave(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := c.Shared.Bring(r, 0, c.notes[0]); err != nil {
		return nil, err
	}
	return c.throughHost(ctx, r, parts, total, why)
}

// throughHost sums as [Shared] does, and says why.
func (c *Collective) throughHost(ctx context.Context, r Round, parts []Part, total kernels.Tensor, why error) ([][]byte, error) {
	notes, err := c.Shared.Sum(ctx, r, parts, total)
	if err == nil {
		c.log.Warn("ranks add up through host memory", "ranks", len(parts), "epoch", r.Epoch, "because", why)
	}
	return notes, err
}

// together sums by a communicator of the parts' members, or finds the sum that they have begun whole.
func (c *Collective) together(ctx context.Context, r Round, parts []Part, total kernels.Tensor) ([][]byte, error) {
	offers, views, err := c.offers(ctx, r, parts)
	if err != nil {
		return nil, err
	}
	if err := fit(offers); err != nil {
		return nil, err
	}
	round, end := inUnison(ctx, r, views)
	defer end()
	if c.comm == nil {
		if err := c.join(round, r, parts); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	if c.ahead != nil {
		if err := c.ahead.finish(round); err != nil {
			return nil, err
		}
	}
	whole := !slices.ContainsFunc(offers, func(o offer) bool { return !o.Whole })
	if !whole {
		c.comm.AllReduce(total, c.parts[0])
	}
	if err := c.comm.Wait(round); err != nil {
		return nil, err
	}
	c.ahead, c.sums, c.took = nil, c.sums+1, c.took+time.Since(began)
	if whole {
		c.early++
	}
	notes := make([][]byte, len(parts))
	for i, o := range offers {
		notes[i] = o.Note
	}
	return notes, nil
}

// all waits until every other member has the communicator's sum, or one has laid its part out: then it reports false.
func (c *Collective) all(ctx context.Context, r Round, parts []Part) (bool, error) {
	for _, p := range parts {
		if p.Member == c.self {
			continue
		}
		_, w, err := c.await(ctx, r, p, summed, laid)
		if at, _ := w.at(r); at == laid || err != nil {
			return false, err
		}
	}
	return true, nil
}

// join makes a communicator of the parts' members, to which the first invites.
func (c *Collective) join(ctx context.Context, r Round, parts []Part) error {
	var id []byte
	var err error
	if parts[0].Member == c.self {
		if id, err = c.lib.Invite(); err != nil {
			return err
		}
		c.id = id
		err = c.tell(r, invited)
	} else {
		var o offer
		o, _, err = c.take(ctx, r, parts[0], laid, invited)
		id = o.ID
	}
	if err != nil {
		return err
	}
	began := time.Now()
	rank := slices.IndexFunc(parts, func(p Part) bool { return p.Member == c.self })
	if c.comm, err = c.lib.Join(ctx, id, rank, len(parts)); err != nil {
		return err
	}
	c.id = id
	c.log.Info("ranks add up on their devices", "library", c.peer.Library, "ranks", len(parts), "epoch", r.Epoch, "joined_in", time.Since(began).Round(time.Millisecond))
	return nil
}

// inUnison returns a context that ends when a member has laid its part out, or has ended. Its owner ends it otherwise.
func inUnison(ctx context.Context, r Round, views []*mem.View) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		cancel(dissent(ctx, r, views))
	}()
	return ctx, func() { cancel(nil); <-watched }
}

// dissent waits until a member has laid its part out, or has ended, and says so; nil once ctx ends.
func dissent(ctx context.Context, r Round, views []*mem.View) error {
	tick := time.NewTicker(maxPoll)
	defer tick.Stop()
	for {
		for _, v := range views {
			w, err := v.Generation(0)
			if err != nil {
				return errGone
			}
			if at, _ := word(w).at(r); at == laid || at == parted {
				return errLaid
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Close implements [Group].
func (c *Collective) Close() error { return errors.Join(c.leave(), c.Shared.Close()) }
