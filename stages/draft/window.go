package draft

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/kernels"
	"penstock/schema"
	"penstock/stages/internal/account"
	"penstock/stages/internal/model"
)

// window is the open window: this rank's parts of its sum, and what is on its way into them.
type window struct {
	number   uint32
	epoch    uint32 // of the plan
	ids      []uint32
	tallies  []tally         // of the parts
	summed   map[uint32]bool // batches that are in the parts
	computed []scratch       // that went into the sum before the ledger confirmed their addition
	waiting  int             // gradients that go into the sum when it has
	roots    []string        // acknowledge subjects of what is in the parts
	prepared uint64          // ledger sequence of this rank's last prepared record
	head     *headStart      // of the sum over the ranks; nil: none
}

// scratch is a batch's gradient on its way into a part.
type scratch struct {
	grads *model.Params
	item  item
	tally tally
	err   error // of the ledger
}

// window computes, adds, reduces, commits and steps one window.
func (t *trainer) window(ctx context.Context) error {
	t.turn.did(turnTell)
	o := t.openWindow()
	defer func() { o.head.close() }()
	t.turn.did(turnOpen)
	if err := t.share(ctx); err != nil {
		return err
	}
	for {
		changed := t.w.Ledger.Changed()
		s := t.standing(o)
		if !s.in {
			return errPutOut
		}
		if s.complete && t.mayClose(o) {
			if closed, err := t.closeWindow(ctx, o, s); closed || err != nil {
				return err
			}
			continue
		}
		t.w.Book.Enter(account.NoInput)
		if s.complete {
			t.w.Book.Enter(account.Window)
		} else {
			t.idle(ctx, o)
		}
		if err := t.progress(ctx, o, changed); err != nil {
			return err
		}
	}
}

// mayClose says whether a complete window need not wait for the ledger any more.
func (t *trainer) mayClose(o *window) bool {
	if t.shared == nil {
		return t.behind == nil
	}
	return o.waiting == 0
}

// progress does the next thing for a window that is there to be done, or returns when the ledger has changed.
func (t *trainer) progress(ctx context.Context, o *window, changed <-chan struct{}) error {
	ready := t.ready
	if o.waiting > 0 && t.lacksScratch() {
		ready = nil
	} else if at := slices.IndexFunc(t.ahead, func(it item) bool { return it.hop.Record.Window <= o.number }); at >= 0 {
		it := t.ahead[at]
		t.ahead = slices.Delete(t.ahead, at, at+1)
		return t.compute(ctx, o, it)
	}
	select {
	case it := <-ready:
		return t.compute(ctx, o, it)
	case s := <-t.recorded:
		t.add(o, s)
		return nil
	case <-t.committed:
		return t.confirm()
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *trainer) openWindow() *window {
	o := &window{number: t.state.Window, tallies: make([]tally, len(t.parts)), summed: map[uint32]bool{}}
	for _, p := range t.run.Plan.Window(int(o.number)) {
		o.ids, o.epoch = append(o.ids, uint32(p.Index)), uint32(p.Epoch)
	}
	t.group.Withdraw()
	if !t.w.Config.Deterministic {
		t.parts[0].Zero()
	}
	return o
}

// standing is how a window stands on the ledger.
type standing struct {
	in          bool // this rank is a member, and the window is open
	epoch       uint32
	members     []policy.Member
	control     uint64
	complete    bool
	added, dead []uint32
	owners      []policy.Member // of what is added
}

func (t *trainer) standing(o *window) (s standing) {
	t.w.Ledger.View(func(l *policy.Lineage) {
		s.epoch, s.members, s.control = l.Epoch, l.Members, l.Control
		if t.shared == nil {
			t.standAlone(l, o, &s)
			return
		}
		s.in = l.Gen == t.gen && l.Next == o.number && (l.Members == nil || slices.Contains(l.Members, t.me))
		s.added, s.dead, s.complete = l.Complete(o.number, o.ids)
		for _, id := range s.added {
			st := l.Of(o.number, id)
			s.owners = append(s.owners, policy.Member{Rank: st.Rank, Incarnation: st.Owner})
		}
	})
	return s
}

// lacksScratch says that every scratch gradient is on its way. In deterministic order a batch has a part of its own.
func (t *trainer) lacksScratch() bool { return !t.w.Config.Deterministic && len(t.scratch) == 0 }

// part is the number of the part that a batch goes into.
func (t *trainer) part(o *window, id uint32) int {
	if t.w.Config.Deterministic {
		return slices.Index(o.ids, id)
	}
	return 0
}

// compute runs the drafter on a claimed batch and sends the addition to the ledger. It keeps a batch of a later window for
// that, and discards one whose window went on without it.
func (t *trainer) compute(ctx context.Context, o *window, it item) error {
	r := it.hop.Record
	if r.Window > o.number {
		t.ahead = append(t.ahead, it)
		return nil
	}
	if r.Window < o.number || t.rejected(r) {
		return t.discard(ctx, it)
	}
	s := scratch{item: it}
	if t.w.Config.Deterministic {
		s.grads = t.parts[t.part(o, r.Index)]
	} else {
		select {
		case s.grads = <-t.scratch:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	t.w.Status.Handoff.Add(r.Sent)
	t.turned(r.Window, r.Sent)
	t.w.Book.Enter(account.Compute)
	defer t.w.Book.Enter(account.NoInput)
	trained, began := t.traces.training(ctx, it.hop), time.Now()
	err := t.use(ctx, r, func(feats kernels.Tensor) error { return t.gradient(ctx, o, &s, feats) })
	trained(err)
	if err != nil {
		o.head.drop(&s)
		t.free(s)
		if err := t.giveUp(ctx, it, err); err != nil {
			return fmt.Errorf("batch %d: %w", r.Index, err)
		}
		return nil
	}
	t.costs.Observe(r.Bucket, t.run.Work(t.run.Plan.Batch(int(r.Index))), time.Since(began))
	if t.shared == nil {
		return t.sumAhead(ctx, o, s)
	}
	o.waiting++
	return t.settle.Do(ctx, func(ctx context.Context) error { return t.record(ctx, s) })
}

// gradient is the arithmetic of one batch: Σ weighted loss, Σ weight, and the gradient of the former.
func (t *trainer) gradient(ctx context.Context, o *window, s *scratch, feats kernels.Tensor) error {
	h := s.item.hop.Record
	p, err := t.run.Batch(h.Batch, h.Documents, h.Tokens)
	if err != nil {
		return err
	}
	packed := t.run.Load(p)
	b := model.Batch{IDs: packed.IDs, Mask: packed.Mask, Offsets: packed.Offsets, Hidden: feats,
		Anchors: t.run.Anchors(p, packed)}
	s.grads.Zero()
	r, err := t.drafter.StepBySections(&b, t.loss, s.grads, t.bySections(ctx, o, s))
	s.tally = tallyOf(r, h, len(b.Anchors)*t.drafter.Config.BlockSize, packed)
	return err
}

// record writes the addition to the ledger; only then does the gradient go into the sum. The hop needs not wait for that: whoever
// loses the gradient now is a rank that is put out, and its additions with it. The root is in this rank's journal before the ledger has
// the addition: whoever gets the hop as well finds it there and releases the packer's slot, whose owner has marked the root until then.
func (t *trainer) record(ctx context.Context, s scratch) error {
	h := s.item.hop
	t.w.Keeper.Hold(h.Record.Root)
	err := t.writeAdded(ctx, &s)
	switch {
	case errors.Is(err, broker.ErrLost):
		t.w.Keeper.Drop(h.Record.Root)
	case err != nil:
		return err
	}
	s.err = err
	select {
	case t.recorded <- s:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	t.flight.leave(h.Record.Index)
	return t.settled(h)(ctx)
}

// writeAdded appends the addition, behind the rank's claim.
func (t *trainer) writeAdded(ctx context.Context, s *scratch) error {
	r := s.item.hop.Record
	rec := schema.Added{Batch: r.Batch, Rank: t.me.Rank, Incarnation: t.me.Incarnation, RankEpoch: t.w.Ledger.Lineage().Epoch,
		Documents: r.Documents, Tokens: r.Tokens, Slots: uint32(s.tally.Slots)}
	for {
		seq, err := t.w.Conn.Ledger().Added(ctx, rec, s.item.claim)
		var lost *broker.LostError
		if t.shared == nil && errors.As(err, &lost) {
			if err = t.claimAgain(ctx, &s.item, lost.Winner); err == nil {
				continue
			}
		}
		if err == nil {
			t.w.Ledger.Apply(broker.Entry{Seq: seq, Record: rec})
		}
		return err
	}
}

// add puts a recorded gradient into its part; one that the ledger refused is dropped.
func (t *trainer) add(o *window, s scratch) {
	o.waiting--
	if s.err == nil {
		t.sum(o, s)
	} else {
		o.head.drop(&s)
	}
	t.free(s)
}

// sum puts a gradient into its part of the window's sum.
func (t *trainer) sum(o *window, s scratch) {
	t.w.Book.Enter(account.Compute)
	h := s.item.hop.Record
	i := t.part(o, h.Index)
	if t.w.Config.Deterministic {
		o.tallies[i] = s.tally
	} else {
		t.parts[i].Add(s.grads)
		o.tallies[i].add(s.tally)
	}
	o.summed[h.Index] = true
	o.roots = append(o.roots, h.Root)
	t.w.Status.Batches.Add(1)
	t.w.Status.Tokens.Add(uint64(h.Tokens))
}

// free gives a scratch gradient back.
func (t *trainer) free(s scratch) {
	if !t.w.Config.Deterministic {
		t.scratch <- s.grads
	}
}

// rejected says whether a batch is dead.
func (t *trainer) rejected(r schema.Hop) (dead bool) {
	t.w.Ledger.View(func(l *policy.Lineage) { dead = l.Of(r.Window, r.Index).State == policy.Dead })
	return dead
}

// discard gives up a claimed batch whose window went on without it.
func (t *trainer) discard(ctx context.Context, it item) error {
	t.flight.leave(it.hop.Record.Index)
	return t.settle.Do(ctx, t.settled(it.hop))
}
