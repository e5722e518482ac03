package draft

import (
	"context"

	"penstock/broker/policy"
	"penstock/kernels"
	"penstock/stages/internal/reduce"
)

// A window's sum over the ranks begins while the last batches are still being computed. Once every batch of the window has a
// rank, a rank that has one left lets each layer be summed as soon as that batch's backward has completed it; one that has none
// left, all of them. Nothing depends on it: the parts stand, and if one of them becomes another in the end, because a batch is
// rejected or changes hands, the ranks sum anew. Until the commit nobody steps, as ever.

// headStart is what this rank has let be summed of the open window: its part, and the gradient of the batch that it computes.
type headStart struct {
	batches int      // in it
	last    *scratch // of the batch; nil: none is left
	dropped bool     // the gradient: it goes into no part
	given   int      // sections that may be summed
	end     context.CancelFunc

	total, part, gradient []kernels.Tensor // by section
}

// bySections returns what a step on a batch of the open window calls for each section of the gradient.
func (t *trainer) bySections(ctx context.Context, o *window, s *scratch) func(section int) {
	if t.early == nil {
		return nil
	}
	return func(section int) {
		if section == 0 {
			t.addRecorded(o)
			t.start(ctx, o, s)
		}
		if o.head != nil { // of a batch before, or of none, every section is given
			t.give(o, section+1)
		}
	}
}

// idle lets this rank's part of the open window be summed if it has nothing left to do in it.
func (t *trainer) idle(ctx context.Context, o *window) {
	if t.early != nil && t.start(ctx, o, nil) {
		t.give(o, len(o.head.total))
	}
}

// start begins the window's sum, if its batches are all taken, those of this rank are in its part but for the one being computed,
// if there is one, and the group can.
func (t *trainer) start(ctx context.Context, o *window, last *scratch) bool {
	if o.head != nil || o.waiting > 0 {
		return false
	}
	round, members, ok := t.allTaken(o, last)
	if !ok {
		return false
	}
	var parts []reduce.Part
	for _, m := range members {
		parts = append(parts, reduce.Part{Member: m})
	}
	h := &headStart{batches: len(o.summed), last: last}
	h.total, h.part = t.drafter.Sections(t.total), t.drafter.Sections(t.parts[0])
	if last != nil {
		h.batches++
		h.gradient = t.drafter.Sections(last.grads)
	}
	ctx, h.end = t.during(ctx, o, standing{epoch: round.Epoch, members: members})
	if !t.early.Begin(ctx, round, parts, h.total) {
		h.end()
		return false
	}
	o.head = h
	return true
}

// allTaken reports whether every batch of the window is done or being worked on, and by this rank at most the one. It may be a
// window of other members by now: that the group sees by the round.
func (t *trainer) allTaken(o *window, last *scratch) (round reduce.Round, members []policy.Member, ok bool) {
	t.w.Ledger.View(func(l *policy.Lineage) {
		round, members = reduce.Round{Gen: l.Gen, Window: o.number, Epoch: l.Epoch}, l.Members
		ok = l.Unclaimed(o.number, o.ids) == 0
		for _, id := range o.ids {
			own := l.Of(o.number, id).State == policy.Claimed && l.Of(o.number, id).Owner == t.me.Incarnation
			if own && (last == nil || id != last.item.hop.Record.Index) {
				ok = false
			}
		}
	})
	return round, members, ok
}

// give lets the first so many sections be summed.
func (t *trainer) give(o *window, sections int) {
	for h := o.head; h.given < sections; h.given++ {
		i := h.given
		t.dev.Copy(h.total[i], h.part[i])
		if h.last != nil {
			t.dev.Add(h.total[i], h.gradient[i])
		}
		t.early.Ready()
	}
}

// addRecorded adds what the ledger has meanwhile.
func (t *trainer) addRecorded(o *window) {
	for {
		select {
		case s := <-t.recorded:
			t.add(o, s)
		default:
			return
		}
	}
}

// close ends what is under way: it is in vain, or summed.
func (h *headStart) close() {
	if h != nil {
		h.end()
	}
}

// drop says that a gradient goes into no part. Its batch may come again, on other features.
func (h *headStart) drop(s *scratch) {
	if h != nil && h.last != nil && h.last.item.hop.Record.Index == s.item.hop.Record.Index {
		h.dropped = true
	}
}

// is says whether what was let be summed is the window's part now.
func (h *headStart) is(o *window) bool { return !h.dropped && len(o.summed) == h.batches }
