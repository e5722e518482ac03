package draft

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/kernels"
	"penstock/kernels/mem"
	"penstock/schema"
	"penstock/schema/checkpoint"
	"penstock/stages/internal/group"
	"penstock/stages/internal/reduce"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/worker"
)

// lookEvery is how often a rank looks whether the others still live, where no supervisor says so at once.
const lookEvery = 500 * time.Millisecond

// enter makes this rank a member with weights: it takes them from a member, at a window boundary, or opens a generation
// on the newest checkpoint if no member lives. It reports false if the others have the run complete.
func (t *trainer) enter(ctx context.Context) (bool, error) {
	end, err := t.w.Conn.Ledger().End(ctx)
	if err == nil {
		err = t.w.Ledger.Reach(ctx, end)
	}
	if err == nil && t.shared != nil {
		err = t.w.Announce(ctx, t.shared.Info())
	}
	for wished := false; err == nil; {
		changed := t.w.Ledger.Changed()
		l := t.w.Ledger.Lineage()
		if slices.Contains(l.Members, t.me) {
			in, err := t.join(ctx, l)
			if err != nil || in {
				return in, err
			}
			wished = false
			continue
		}
		others, err := t.living(ctx, l.Members)
		if err != nil {
			return false, err
		}
		switch {
		case others > 0 && int(l.Next) >= t.run.Plan.Windows():
			return false, nil
		case others == 0:
			opened, err := t.open(ctx)
			if err != nil || opened {
				return opened, err
			}
		}
		if t.shared != nil && !wished {
			wished = true
			if err := t.w.Conn.Board().Put(ctx, joinKey(t.me.Rank), schema.Join{Rank: t.me.Rank, Incarnation: t.me.Incarnation}); err != nil {
				return false, err
			}
		}
		t.w.Status.Wait("the other ranks to take this one in at the next window")
		if err := worker.WaitEither(ctx, changed, lookEvery); err != nil {
			return false, err
		}
	}
	return false, err
}

// living buries the members that are dead, a former process of this rank first, and returns how many live.
func (t *trainer) living(ctx context.Context, ms []policy.Member) (int, error) {
	dead := map[policy.Member]bool{}
	for _, m := range ms {
		alive := false
		if m.Rank != t.me.Rank {
			var err error
			if alive, err = t.w.Run.Alive(m.Rank); err != nil {
				return 0, err
			}
		}
		if !alive {
			dead[m] = true
		}
	}
	if len(dead) == 0 {
		return len(ms), nil
	}
	left, batches, err := group.Bury(ctx, t.w.Conn, t.w.Ledger, t.w.Run.Journal, func(m policy.Member) bool { return dead[m] })
	if err != nil {
		return left, fmt.Errorf("put out dead ranks: %w", err)
	}
	for m := range dead {
		t.w.Log.Warn("a rank has died", "rank", m.Rank, "left", left, "handed_back", batches)
	}
	return left, nil
}

// open starts a generation at the window where the newest checkpoint stands. It reports false if another rank leads, or
// has opened one meanwhile.
func (t *trainer) open(ctx context.Context) (bool, error) {
	if ok, err := t.takeLead(); err != nil || !ok {
		return false, err
	}
	end, err := t.w.Conn.Ledger().End(ctx)
	if err == nil {
		err = t.w.Ledger.Reach(ctx, end)
	}
	if err != nil {
		return false, err
	}
	if len(t.w.Ledger.Lineage().Members) > 0 {
		return false, t.dropLead()
	}
	if err := t.restore(); err != nil {
		return false, runtime.Permanent(err)
	}
	kept, err := t.w.Run.Generation()
	if err != nil {
		return false, err
	}
	last, err := t.w.Conn.Ledger().LastGen(ctx)
	if err != nil {
		return false, err
	}
	t.gen = max(kept, last.Gen) + 1
	if err := t.w.Run.WriteGeneration(t.gen); err != nil {
		return false, err
	}
	g := broker.Generation{
		Gen:     schema.Gen{Run: t.w.Run.Name(), Gen: t.gen, Start: t.state.Window, By: t.w.Instance},
		AckWait: t.w.AckWait,
	}
	for _, b := range t.run.Plan.Buckets() {
		ceiling := max(1, t.run.Plan.Ceiling(b.Name, t.w.Config.Window.Lookahead))
		g.Buckets = append(g.Buckets, broker.BucketCredit{Bucket: b.Name, Credit: ceiling, Ceiling: ceiling})
	}
	if err := t.w.Conn.OpenGeneration(ctx, g); err != nil {
		return false, err
	}
	t.w.Log.Info("generation opened", "gen", t.gen, "window", t.state.Window, "of", t.run.Plan.Windows())
	if err := t.lead.lines.Append(openLine(t.gen, t.state.Window)); err != nil {
		return false, err
	}
	return true, t.w.Ledger.Wait(ctx, func(l *policy.Lineage) bool { return l.Gen >= t.gen })
}

// baton is what goes along with weights and moments.
type baton struct {
	State  checkpoint.State
	Steps  int // of the optimizer
	Recent recent
}

// handOver is the round in which the state before a window is offered: the same whatever the rank epoch.
func handOver(gen, window uint32) reduce.Round { return reduce.Round{Gen: gen, Window: window} }

func (t *trainer) tensors() [3]kernels.Tensor {
	return [3]kernels.Tensor{t.drafter.Weights.Flat, t.opt.M.Flat, t.opt.V.Flat}
}

// join takes the state from the member that took this rank in. If that one is gone, this rank puts itself out, to be
// taken in by another.
func (t *trainer) join(ctx context.Context, l policy.Lineage) (bool, error) {
	for _, m := range l.Members {
		if m == t.me {
			continue
		}
		note, err := t.shared.Fetch(ctx, m, handOver(l.Gen, l.Next), t.tensors())
		if errors.Is(err, mem.ErrStale) {
			continue
		}
		var b baton
		if err == nil {
			err = json.Unmarshal(note, &b)
		}
		if err != nil {
			return false, fmt.Errorf("take the state of window %d from %s: %w", l.Next, m.Rank, err)
		}
		b.State.Config, b.State.Drafter = t.state.Config, t.state.Drafter
		t.drafter.Weights.Refresh()
		t.gen, t.state, t.began, t.opt.Steps = l.Gen, b.State, time.Now(), b.Steps
		t.report.recall(b.Recent)
		t.w.Log.Info("joined", "gen", t.gen, "window", t.state.Window, "from", m.Rank, "ranks", len(l.Members))
		return true, t.w.Conn.Board().Remove(ctx, joinKey(t.me.Rank))
	}
	_, err := group.Remove(ctx, t.w.Conn.Ledger(), t.w.Ledger, func(m policy.Member) bool { return m == t.me })
	return false, err
}

func joinKey(rank string) string { return "join." + rank }
