package draft

import (
	"context"
	"errors"
	"fmt"
	"time"

	"penstock/broker"
	"penstock/schema"
	"penstock/stages/internal/model"
)

// commit closes the window on the ledger and only then steps. Roots are acknowledged behind the step's back.
func (t *trainer) commit(ctx context.Context, o *window, added, dead []uint32) error {
	for _, it := range o.early {
		if err := t.discard(ctx, it); err != nil {
			return err
		}
	}
	rec := schema.Commit{Run: t.w.Run.Name(), Gen: t.gen, Window: o.number, Batches: added, Dead: dead}
	seq, err := t.w.Conn.Ledger().Commit(ctx, rec, 0)
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	t.w.Ledger.Apply(broker.Entry{Seq: seq, Record: rec})
	stepped := t.traces.stepping(ctx, o.number, o.roots)
	for _, root := range o.roots {
		if err := t.settle.Do(ctx, t.acknowledge(root)); err != nil {
			return err
		}
	}
	o.line.Batches, o.line.Dead = added, dead
	m := metric{Window: o.number, Epoch: o.line.Epoch, LR: t.schedule.LR(int(o.number)), Tokens: o.line.Tokens, Slots: o.line.Slots}
	err = t.step(o, &m)
	stepped(err)
	if err != nil {
		return err
	}
	if err := t.lines.Append(o.line); err != nil {
		return err
	}
	return t.account(ctx, o, m)
}

// acknowledge settles the root of a committed batch. One whose generation is over needs none.
func (t *trainer) acknowledge(root string) func(context.Context) error {
	return func(ctx context.Context) error {
		t.w.Keeper.Drop(root)
		acknowledged := t.traces.acknowledging(root)
		err := t.w.Conn.AckRoot(ctx, root)
		if errors.Is(err, broker.ErrGone) {
			err = nil
		}
		acknowledged(err)
		return err
	}
}

// step updates the weights from the window's sum. A gradient that is not finite leaves them as they are.
func (t *trainer) step(o *window, m *metric) error {
	r := o.result
	if !(r.Den > 0) { // every batch is dead
		return nil
	}
	m.Loss = r.Num / r.Den
	norm, err := t.opt.Step(t.grads, r.Den, m.LR)
	var bad *model.NonFiniteError
	if errors.As(err, &bad) {
		t.w.Log.Warn("step skipped", "window", o.number, "err", bad)
		o.line.Skipped, m.Skipped = true, bad.Tensor
		t.state.Totals.Skipped++
		return nil
	}
	m.GradNorm = norm
	t.state.Step++
	return err
}

// account adds the window to the totals, reports it, and evaluates and saves when it is time to.
func (t *trainer) account(ctx context.Context, o *window, m metric) error {
	s := &t.state
	s.Window++
	s.Totals.Batches += uint64(len(o.line.Batches))
	s.Totals.Documents += uint64(o.line.Documents)
	s.Totals.Tokens += o.line.Tokens
	s.Totals.Slots += o.line.Slots
	s.Totals.Dead += uint64(len(o.line.Dead))
	s.Totals.Loss += o.result.Num
	s.Totals.Weight += o.result.Den
	for k, p := range o.result.At {
		if k > 0 && p.Slots > 0 {
			m.Hits = append(m.Hits, float32(p.Hits)/float32(p.Slots))
		} else if k > 0 {
			m.Hits = append(m.Hits, 0)
		}
	}
	m.Seconds = time.Since(t.began).Seconds()
	if err := t.report.window(m, *s); err != nil {
		return err
	}
	cfg := t.w.Config
	if every := cfg.Eval.Every; every > 0 && int(s.Window)%every == 0 && int(s.Window) < t.run.Plan.Windows() {
		if err := t.evaluator.offer(t.drafter, s.Window); err != nil {
			return err
		}
	}
	if every := cfg.Save.Every; every > 0 && int(s.Window)%every == 0 && int(s.Window) < t.run.Plan.Windows() {
		return t.save()
	}
	return nil
}

// discard gives up a claimed batch whose window went on without it.
func (t *trainer) discard(ctx context.Context, it item) error {
	t.w.Keeper.Drop(it.hop.Record.Root)
	t.flight.leave(it.hop.Record.Index)
	t.buffers <- it.whole
	return t.settle.Do(ctx, t.settled(it.hop))
}
