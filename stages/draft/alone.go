package draft

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/stages/internal/account"
)

// A rank alone has nobody to agree with, so it does not wait for the ledger's word: it sums, steps, and computes the next
// window while `added` and `commit` are on their way, one window behind. The order on the ledger is that of a group: a
// window's commit follows its additions, and the additions of the next one follow the commit. Until the commit is stored,
// nobody is told of the step, no root is acknowledged, nothing is saved, and no other step is made. What the ledger
// refuses is in the weights; then they are void, and this rank starts from its checkpoint in a new generation.

// errRefused says that the ledger refuses what is in the weights.
var errRefused = errors.New("the ledger refuses what is in this rank's weights")

// behind is a window that was stepped over, and whose commit is not known to be stored.
type behind struct {
	o    *window
	s    standing
	past past
}

// standAlone is standing of a rank alone: a batch is added once it is in the sum.
func (t *trainer) standAlone(l *policy.Lineage, o *window, s *standing) {
	s.in = l.Gen == t.gen && (l.Next == o.number || t.behind != nil && l.Next == t.behind.o.number)
	for _, id := range o.ids {
		switch {
		case o.summed[id]:
			s.added, s.owners = append(s.added, id), append(s.owners, t.me)
		case l.Of(o.number, id).State == policy.Dead:
			s.dead = append(s.dead, id)
		}
	}
	s.complete = len(s.added)+len(s.dead) == len(o.ids)
}

// news is that a gradient is in the sum, or that a window was stepped over.
type news struct {
	summed  scratch
	stepped *behind
}

// sumAhead puts a gradient into the sum, and its addition on the way.
func (t *trainer) sumAhead(ctx context.Context, o *window, s scratch) error {
	if t.rejected(s.item.hop.Record) {
		t.free(s)
		return t.discard(ctx, s.item)
	}
	t.w.Keeper.Hold(s.item.hop.Record.Root) // before the packer's slot, whose owner has marked it, is released
	t.sum(o, s)
	t.free(s)
	o.computed = append(o.computed, s)
	return t.announce(ctx, news{summed: s})
}

func (t *trainer) announce(ctx context.Context, n news) error {
	select {
	case t.news <- n:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tell writes the news to the ledger until ctx ends: the additions of a window side by side, then its commit, then the
// additions of the next one. A hop is settled behind its addition, and roots behind the commit, while the device goes on.
func (t *trainer) tell(ctx context.Context) error {
	stored, open := make(chan struct{}, cap(t.news)), 0
	for {
		var n news
		select {
		case n = <-t.news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if n.stepped == nil {
			open++
			err := t.settle.Do(ctx, func(ctx context.Context) error {
				if err := t.writeAdded(ctx, &n.summed); err != nil {
					return fmt.Errorf("batch %d: %w", n.summed.item.hop.Record.Index, err)
				}
				stored <- struct{}{}
				t.flight.leave(n.summed.item.hop.Record.Index)
				return t.settled(n.summed.item.hop)(ctx)
			})
			if err != nil {
				return err
			}
			continue
		}
		for ; open > 0; open-- {
			select {
			case <-stored:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := t.commitBehind(ctx, n.stepped); err != nil {
			return fmt.Errorf("window %d: %w", n.stepped.o.number, err)
		}
		if err := t.acknowledgeAll(ctx, n.stepped.o); err != nil {
			return err
		}
		t.committed <- struct{}{} // there is room: one window is behind
	}
}

// claimAgain follows a record that was written behind the rank's claim, about other features of the batch than those that
// are in the sum.
func (t *trainer) claimAgain(ctx context.Context, it *item, winner broker.Entry) error {
	if winner.Record == nil {
		return fmt.Errorf("%w: its store has lost the claim", errRefused)
	}
	t.w.Ledger.Apply(winner)
	err := t.claimOnLedger(ctx, it.hop.Record, it)
	if err == errVoid {
		return fmt.Errorf("%w: %s says %s", errRefused, winner.Subject, winner.Record.Kind())
	}
	return err
}

// stepAhead steps over a complete window before it is committed.
func (t *trainer) stepAhead(ctx context.Context, o *window, s standing) error {
	t.w.Book.Enter(account.Step)
	r, err := t.reduce(ctx, o, s)
	if err != nil {
		return err
	}
	stepped := t.traces.stepping(ctx, o.number, o.roots)
	p, err := t.stepOver(o, s, r)
	stepped(err)
	if err != nil {
		return err
	}
	t.behind = &behind{o, s, p}
	return t.announce(ctx, news{stepped: t.behind})
}

// commitBehind writes a commit that tells of what is in the weights.
func (t *trainer) commitBehind(ctx context.Context, b *behind) error {
	same := false
	t.w.Ledger.View(func(l *policy.Lineage) {
		added, dead, complete := l.Complete(b.o.number, b.o.ids)
		same = complete && slices.Equal(added, b.s.added) && slices.Equal(dead, b.s.dead) || l.Gen == t.gen && l.Committed(b.o.number)
	})
	if !same {
		return fmt.Errorf("%w: other batches are added or dead", errRefused)
	}
	return t.commit(ctx, b.o, b.s)
}

// confirm tells of the window behind, which has committed, and does what is due then.
func (t *trainer) confirm() error {
	t.w.Book.Enter(account.Step)
	b := t.behind
	t.behind = nil
	if err := t.publish(b.past); err != nil {
		return err
	}
	return t.occasions()
}

// catchUp returns when no window is behind.
func (t *trainer) catchUp(ctx context.Context) error {
	none := &window{number: t.state.Window}
	for t.behind != nil {
		t.w.Book.Enter(account.Window)
		if err := t.progress(ctx, none, nil); err != nil {
			return err
		}
	}
	return nil
}

// concludeFor is how long a rank that ends waits for the commit of what it has stepped over: a part of the grace that it has.
const concludeFor = 5 * time.Second

// conclude has the window behind committed after everything else of this rank has ended, though ctx is over.
func (t *trainer) conclude(ctx context.Context) error {
	b := t.behind
	if b == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), concludeFor)
	defer cancel()
	for _, s := range b.o.computed {
		if err := t.writeAdded(ctx, &s); err != nil {
			return fmt.Errorf("window %d: %w", b.o.number, err)
		}
	}
	if err := t.commitBehind(ctx, b); err != nil {
		return fmt.Errorf("window %d: %w", b.o.number, err)
	}
	t.behind = nil
	return t.publish(b.past)
}
