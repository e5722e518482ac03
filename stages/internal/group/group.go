// Package group changes who belongs to the rank group: rank epochs on the ledger, one compare-and-set each.
package group

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
)

// View is the ledger as the writer has read it.
type View interface {
	// Lineage is what has been read so far.
	Lineage() policy.Lineage
	// Reach reads on to a sequence at least.
	Reach(ctx context.Context, seq uint64) error
}

// Change writes the rank epoch whose members change makes of the present ones, which it must not modify; it is asked
// again whenever somebody else's record came first. Equal members need no record. It returns when the view has read it.
func Change(ctx context.Context, ledger broker.Ledger, v View, change func([]policy.Member) []policy.Member) error {
	for {
		l := v.Lineage()
		want := change(l.Members)
		if l.Gen == 0 || slices.Equal(want, l.Members) {
			return nil
		}
		rec := schema.RankEpoch{Gen: l.Gen, Window: l.Next, RankEpoch: l.Epoch + 1}
		for _, m := range want {
			rec.Members, rec.Incarnations = append(rec.Members, m.Rank), append(rec.Incarnations, m.Incarnation)
		}
		seq, err := ledger.RankEpoch(ctx, rec, l.Control)
		var lost *broker.LostError
		if errors.As(err, &lost) {
			if err := v.Reach(ctx, lost.Winner.Seq); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		return v.Reach(ctx, seq)
	}
}

// Remove puts members out, and returns those that this call put out.
func Remove(ctx context.Context, ledger broker.Ledger, v View, gone func(policy.Member) bool) ([]policy.Member, error) {
	var out []policy.Member
	err := Change(ctx, ledger, v, func(ms []policy.Member) []policy.Member {
		out = nil
		stay := ms[:0:0]
		for _, m := range ms {
			if gone(m) {
				out = append(out, m)
			} else {
				stay = append(stay, m)
			}
		}
		if len(out) == 0 {
			return ms
		}
		return stay
	})
	return out, err
}

// With returns ms and more, each once, those of ms whose rank is started again in more left out, in the order of the
// group.
func With(ms []policy.Member, more ...policy.Member) []policy.Member {
	out := slices.Clone(more)
	for _, m := range ms {
		if !slices.ContainsFunc(more, func(n policy.Member) bool { return n.Rank == m.Rank }) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b policy.Member) int { // draft-2 before draft-10
		return cmp.Or(cmp.Compare(len(a.Rank), len(b.Rank)), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	return slices.Compact(out)
}
