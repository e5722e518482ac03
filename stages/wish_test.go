package stages_test

import (
	"context"
	"testing"

	"penstock/broker"
	"penstock/schema"
	"penstock/stages/stagestest"
)

// TestWishOfAFormerProcess has the board keep the wishes to join of two ranks' former processes, which were killed before they
// took them back. Nobody must wait for those: each rank is a member once.
func TestWishOfAFormerProcess(t *testing.T) {
	config := stagestest.Config(t, 24, func(s *schema.Config) { s.Draft.Ranks, s.Train.MaxSteps = 2, 6 })
	p := stagestest.New(t, config)
	var g group
	follow := g.watch(p)
	err := p.Run(t.Context(), func(ctx context.Context) error {
		conn, err := p.Dial(ctx, broker.RoleDraft)
		if err != nil {
			return err
		}
		defer conn.Close()
		for rank, incarnation := range map[string]uint64{"draft-1": 7, "draft-2": 8} {
			if err := conn.Board().Put(ctx, "join."+rank, schema.Join{Rank: rank, Incarnation: incarnation}); err != nil {
				return err
			}
		}
		return follow(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := count(t, p); r.Missing != 0 || r.Duplicates != 0 {
		t.Errorf("ledger: %+v", r)
	}
	last := g.epochs[len(g.epochs)-1]
	seen := map[string]bool{}
	for i, rank := range last.Members {
		if seen[rank] || last.Incarnations[i] == 7 || last.Incarnations[i] == 8 {
			t.Errorf("the last members are %v, incarnations %v", last.Members, last.Incarnations)
		}
		seen[rank] = true
	}
}
