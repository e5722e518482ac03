package draft

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/plan"
	"penstock/stages/internal/reduce"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/worker"
)

// A rank that waits with as much as it has room for asks for more when that is handed back, or thrown away because it is no batch of
// the plan, though nothing is written to the ledger.
func TestHungryAgain(t *testing.T) {
	for name, give := range map[string]func(context.Context, *trainer) error{
		"handed back": func(ctx context.Context, tr *trainer) error { return tr.handBack(ctx, false) },
		"thrown away": func(ctx context.Context, tr *trainer) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- tr.intake(ctx) }()
			synctest.Wait()
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { hungryAgain(t, give) })
		})
	}
}

func hungryAgain(t *testing.T, give func(context.Context, *trainer) error) {
	me := policy.Member{Rank: "draft-1", Incarnation: 1}
	w := &worker.Worker{Env: &runtime.Env{Log: slog.New(slog.DiscardHandler)}, Ledger: worker.NewFollower()}
	tr := &trainer{w: w, gen: 2, me: me, shared: &reduce.Shared{}, run: &worker.RunPlan{Plan: &plan.Plan{}}, park: worker.NewPark(nil),
		views: &worker.Views{}, settle: worker.NewSettler(), costs: &worker.Costs{}, deference: newDeference(), handed: make(chan struct{}, 1)}
	w.Ledger.Apply(broker.Entry{Seq: 1, Record: schema.Gen{Gen: 2}})
	w.Ledger.Apply(broker.Entry{Seq: 2, Record: schema.RankEpoch{Gen: 2, RankEpoch: 1, Members: []string{"draft-1", "draft-2"}, Incarnations: []uint64{1, 2}}})
	for i := range uint32(depth) {
		tr.park.Return(&broker.Delivery[schema.Hop]{Record: schema.Hop{Batch: schema.Batch{Gen: 2, Index: i}}})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asks := make(chan error, 1)
	go func() { asks <- tr.hungry(ctx) }()
	synctest.Wait()
	select {
	case err := <-asks:
		t.Fatalf("asks for more than it has room for: %v", err)
	default:
	}
	if err := give(ctx, tr); err != nil || tr.park.Len() != 0 {
		t.Fatalf("%d are kept: %v", tr.park.Len(), err)
	}
	synctest.Wait()
	select {
	case err := <-asks:
		if err != nil {
			t.Error(err)
		}
	default:
		t.Error("waits, with nothing at hand")
	}
}
