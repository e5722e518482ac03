package draft

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/group"
)

// boundary is what happens between two windows: a lead that its holder left is taken over, and the rank that leads takes
// in those that wish to join.
func (t *trainer) boundary(ctx context.Context) error {
	if err := t.inherit(); err != nil || t.lead == nil || t.shared == nil {
		return err
	}
	members := t.w.Ledger.Lineage().Members
	if members == nil { // the generation's first rank epoch: the others start at the same time, if they start
		if err := t.wishes.await(ctx, t.me, t.w.Config.Draft.Ranks-1); err != nil {
			return err
		}
	}
	var more []policy.Member
	for _, m := range t.wishes.of(t.me, members) {
		alive, err := t.w.Run.Alive(m.Rank)
		if err != nil {
			return err
		}
		if alive {
			more = append(more, m)
		}
	}
	if len(more) > 0 {
		if err := t.offer(); err != nil {
			return fmt.Errorf("hand over the state of window %d: %w", t.state.Window, err)
		}
	}
	if members == nil {
		more = append(more, t.me)
	}
	if len(more) == 0 {
		return nil
	}
	return group.Change(ctx, t.w.Conn.Ledger(), t.w.Ledger, func(ms []policy.Member) []policy.Member {
		if ms != nil && !slices.Contains(ms, t.me) { // put out: the next window ends this membership
			return ms
		}
		return group.With(ms, more...)
	})
}

// offer lays out the state before the next window. It stays until that window commits, for which all members are needed.
func (t *trainer) offer() error {
	note, err := json.Marshal(baton{State: t.sofar(), Steps: t.opt.Steps, Recent: t.report.lately()})
	if err != nil {
		return err
	}
	return t.shared.Offer(handOver(t.gen, t.state.Window), t.tensors(), note)
}

// watchPeers puts members out whose processes have ended, former ones of this rank too.
func (t *trainer) watchPeers(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			ms := t.w.Ledger.Lineage().Members
			ms = slices.DeleteFunc(slices.Clone(ms), func(m policy.Member) bool { return m == t.me })
			if _, err := t.living(ctx, ms); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// wishes are the ranks that want to join, by what the board says. It is safe for concurrent use.
type wishes struct {
	mu    sync.Mutex
	ranks map[string]policy.Member
	came  chan struct{} // a signal that there may be more
}

func newWishes() *wishes {
	return &wishes{ranks: map[string]policy.Member{}, came: make(chan struct{}, 1)}
}

// await waits a moment for n ranks beside one.
func (w *wishes) await(ctx context.Context, me policy.Member, n int) error {
	late := time.NewTimer(lookEvery)
	defer late.Stop()
	for len(w.of(me, nil)) < n {
		select {
		case <-w.came:
		case <-late.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (w *wishes) watch(ctx context.Context, b broker.Board) error {
	return b.Watch(ctx, joinKey("*"), func(h broker.Hint) error {
		if j, ok := h.Record.(schema.Join); ok {
			w.mu.Lock()
			w.ranks[j.Rank] = policy.Member{Rank: j.Rank, Incarnation: j.Incarnation}
			w.mu.Unlock()
			select {
			case w.came <- struct{}{}:
			default:
			}
		}
		return nil
	})
}

// of returns who wants to join and is not a member, and forgets those that are, and former processes of the rank that asks:
// the board keeps their last word.
func (w *wishes) of(me policy.Member, members []policy.Member) []policy.Member {
	w.mu.Lock()
	defer w.mu.Unlock()
	var more []policy.Member
	for rank, m := range w.ranks {
		if rank == me.Rank || slices.Contains(members, m) {
			delete(w.ranks, rank)
		} else {
			more = append(more, m)
		}
	}
	return more
}
