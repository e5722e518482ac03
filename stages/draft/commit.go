package draft

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/account"
	"penstock/stages/internal/lineage"
	"penstock/stages/internal/model"
	"penstock/stages/internal/runtime"
)

// closeWindow reduces a complete window over the members, has it committed, and steps. It reports false if the members
// changed before the commit: then the reduced sum is void and this rank's parts stand.
func (t *trainer) closeWindow(ctx context.Context, o *window, s standing) (bool, error) {
	if t.shared == nil {
		return true, t.stepAhead(ctx, o, s)
	}
	t.w.Book.Enter(account.Window)
	t.turn.begin()
	round, cancel := t.during(ctx, o, s)
	defer cancel()
	r, err := t.reduce(round, o, s)
	if err == nil {
		err = t.agree(round, o, s, r.hash)
	}
	if err == nil {
		t.turn.did(turnAgree)
		err = t.commit(round, o, s)
	}
	if err != nil && (ctx.Err() != nil || round.Err() == nil) {
		return false, err
	}
	committed := false
	t.w.Ledger.View(func(l *policy.Lineage) { committed = l.Gen == t.gen && l.Next == o.number+1 && l.Closed == s.epoch })
	if !committed {
		t.group.Withdraw()
		return false, nil
	}
	t.turn.did(turnCommit)
	return true, t.advance(ctx, o, s, r)
}

// agree tells the others what this rank's sum is and waits for theirs. Sums that differ end the run.
func (t *trainer) agree(ctx context.Context, o *window, s standing, hash uint64) error {
	if len(s.members) < 2 {
		return nil
	}
	rec := schema.Prepared{Gen: t.gen, Window: o.number, Rank: t.me.Rank, Incarnation: t.me.Incarnation, RankEpoch: s.epoch, Hash: hash}
	for {
		seq, err := t.w.Conn.Ledger().Prepared(ctx, rec, o.prepared)
		var lost *broker.LostError
		if errors.As(err, &lost) { // of a former process of this rank
			o.prepared = lost.Winner.Seq
			continue
		}
		if err != nil {
			return err
		}
		o.prepared = seq
		t.w.Ledger.Apply(broker.Entry{Seq: seq, Record: rec})
		break
	}
	var differ error
	err := t.w.Ledger.Wait(ctx, func(l *policy.Lineage) bool {
		var all bool
		all, differ = l.Agreed()
		return all || differ != nil || t.over(l, o, s)
	})
	return errors.Join(err, runtime.Permanent(differ))
}

// commit writes the window's commit, if this is the first member, and waits until the ledger has it or another record
// was first.
func (t *trainer) commit(ctx context.Context, o *window, s standing) error {
	if len(s.members) > 0 && s.members[0] != t.me {
		return t.w.Ledger.Wait(ctx, func(l *policy.Lineage) bool { return t.over(l, o, s) })
	}
	rec := schema.Commit{Run: t.w.Run.Name(), Gen: t.gen, Window: o.number, RankEpoch: s.epoch, Batches: s.added, Dead: s.dead}
	seq, err := t.w.Conn.Ledger().Commit(ctx, rec, s.control)
	var lost *broker.LostError
	if errors.As(err, &lost) && t.shared != nil { // a rank epoch
		return t.w.Ledger.Reach(ctx, lost.Winner.Seq)
	}
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	t.w.Ledger.Apply(broker.Entry{Seq: seq, Record: rec})
	return nil
}

// advance steps over a committed window and reports it. Roots are acknowledged behind the step's back.
func (t *trainer) advance(ctx context.Context, o *window, s standing, r sum) error {
	t.w.Book.Enter(account.Step)
	stepped := t.traces.stepping(ctx, o.number, o.roots)
	if err := t.acknowledgeAll(ctx, o); err != nil {
		return err
	}
	p, err := t.stepOver(o, s, r)
	stepped(err)
	t.turn.did(turnStep)
	if err == nil {
		err = t.publish(p)
	}
	if err != nil {
		return err
	}
	return t.occasions()
}

// acknowledgeAll begins to settle the roots of a committed window.
func (t *trainer) acknowledgeAll(ctx context.Context, o *window) error {
	t.traces.committed(o.roots)
	for _, root := range o.roots {
		if err := t.settle.Do(ctx, t.acknowledge(root)); err != nil {
			return err
		}
	}
	return nil
}

// stepOver updates weights and totals from a window's sum.
func (t *trainer) stepOver(o *window, s standing, r sum) (past, error) {
	p := past{
		line: lineage.Line{Gen: t.gen, Window: o.number, Epoch: o.epoch, Batches: s.added, Dead: s.dead,
			Documents: r.tally.Documents, Tokens: r.tally.Tokens, Slots: r.tally.Slots, Keys: r.tally.Keys},
		metric: metric{Window: o.number, Epoch: o.epoch, LR: t.schedule.LR(int(o.number)), Tokens: r.tally.Tokens, Slots: r.tally.Slots},
	}
	err := t.step(r, &p)
	if err == nil {
		t.account(r.tally, &p)
	}
	return p, err
}

// acknowledge settles the root of a committed batch. One whose generation is over needs none.
func (t *trainer) acknowledge(root string) func(context.Context) error {
	begin := t.traces.acknowledging(root) // here: the next window's step may come before a settler does
	return func(ctx context.Context) error {
		acknowledged := begin()
		err := t.w.Conn.AckRoot(ctx, root)
		if errors.Is(err, broker.ErrGone) {
			err = nil
		}
		acknowledged(err)
		if err == nil { // not before: until then it takes credit, and the journal names it
			t.w.Keeper.Drop(root)
		}
		return err
	}
}

// step updates the weights from the window's sum. A gradient that is not finite leaves them as they are.
func (t *trainer) step(s sum, p *past) error {
	r := s.tally.Result
	if !(r.Den > 0) { // every batch is dead
		return nil
	}
	if loss := r.Num / r.Den; finite(loss) {
		p.metric.Loss = loss
	}
	if ce := r.EntropyNum / r.EntropyDen; finite(ce) {
		p.metric.CrossEntropy = ce
	}
	norm, err := t.opt.Step(s.grads, r.Den, p.metric.LR)
	var bad *model.NonFiniteError
	if errors.As(err, &bad) {
		t.w.Log.Warn("step skipped", "window", p.line.Window, "err", bad)
		p.line.Skipped, p.metric.Skipped = true, bad.Tensor
		t.state.Totals.Skipped++
		return nil
	}
	p.metric.GradNorm = norm
	t.state.Step++
	return err
}

// account adds a window to the totals.
func (t *trainer) account(w tally, p *past) {
	s := &t.state
	s.Window++
	s.Totals.Batches += uint64(len(p.line.Batches))
	s.Totals.Documents += uint64(w.Documents)
	s.Totals.Tokens += w.Tokens
	s.Totals.Slots += w.Slots
	s.Totals.Dead += uint64(len(p.line.Dead))
	if l := w.Result; finite(l.Num) {
		s.Totals.Loss += l.Num
		s.Totals.Weight += l.Den
	}
	for k, at := range w.Result.At {
		if k > 0 {
			p.metric.Hits = append(p.metric.Hits, float32(at.Hits)/float32(max(1, at.Slots)))
			p.metric.Accepted = append(p.metric.Accepted, float32(at.Accepted)/float32(max(1, at.Slots)))
		}
	}
	p.metric.Seconds = time.Since(t.began).Seconds()
}

// finite says whether a number can be written as JSON.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// occasions evaluates and saves when it is time to, on the rank that leads.
func (t *trainer) occasions() error {
	cfg, s := t.w.Config, t.state
	due := func(every int) bool { return every > 0 && int(s.Window)%every == 0 && !t.ended() }
	if t.lead == nil {
		return nil
	}
	if due(cfg.Eval.Every) {
		if err := t.evaluator.offer(t.drafter, s.Window); err != nil {
			return err
		}
	}
	t.unsaved = t.unsaved || due(cfg.Save.Every)
	if t.unsaved && rested(time.Now(), t.savedAt, t.saving) {
		t.trySave()
	}
	return nil
}
