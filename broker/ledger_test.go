package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"penstock/broker"
	"penstock/broker/brokertest"
	"penstock/schema"
)

func batch(gen, window, index uint32) schema.Batch {
	return schema.Batch{Run: "test", Gen: gen, Window: window, Index: index, Bucket: "b64"}
}

func TestLedgerRaceHasOneWinner(t *testing.T) {
	b := brokertest.Start(t)
	ctx := brokertest.Context(t)
	const writers, batches = 16, 20
	var won [batches]atomic.Int64
	var seqs [batches]atomic.Uint64
	g, ctx := errgroup.WithContext(ctx)
	for w := range uint64(writers) {
		l := b.Conn(fmt.Sprintf("rank%d", w), broker.Options{}).Ledger()
		g.Go(func() error {
			for i := range uint32(batches) {
				seq, err := l.Claim(ctx, schema.Claim{Batch: batch(1, 0, i), Rank: "r", Incarnation: w}, 0)
				var lost *broker.LostError
				switch {
				case err == nil:
					won[i].Add(1)
					seqs[i].Store(seq)
				case !errors.As(err, &lost):
					return err
				case !errors.Is(err, broker.ErrLost):
					return fmt.Errorf("%w is not ErrLost", err)
				default:
					if c, ok := lost.Winner.Record.(schema.Claim); !ok || c.Incarnation == w || c.Index != i {
						return fmt.Errorf("writer %d lost batch %d to %+v", w, i, lost.Winner)
					}
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	entries, last, err := b.Conn("reader", broker.Options{}).Ledger().History(brokertest.Context(t), broker.LedgerAll)
	if err != nil || len(entries) != batches || last != entries[batches-1].Seq {
		t.Fatalf("%d records up to %d, %v; want %d", len(entries), last, err, batches)
	}
	for i := range batches {
		if won[i].Load() != 1 {
			t.Errorf("batch %d: %d winners", i, won[i].Load())
		}
		if !slices.ContainsFunc(entries, func(e broker.Entry) bool { return e.Seq == seqs[i].Load() }) {
			t.Errorf("batch %d: the winner's sequence %d is not there", i, seqs[i].Load())
		}
	}
}

func TestLedgerAppendIsIdempotent(t *testing.T) {
	b := brokertest.Start(t)
	ctx := brokertest.Context(t)
	lose := true
	c := b.Conn("test", broker.Options{Fault: func(op broker.Op, _ string) broker.Outcome {
		if op == broker.OpPublish && lose {
			lose = false
			return broker.LoseReply
		}
		return broker.Pass
	}})
	l := c.Ledger()
	commit := schema.Commit{Run: "test", Gen: 1, Window: 3, Batches: []uint32{1, 2}}
	first, err := l.Commit(ctx, commit, 0) // stored, the answer is lost, tried again
	if err != nil || lose {
		t.Fatalf("commit with a lost answer: %v (lost: %v)", err, !lose)
	}
	if again, err := l.Commit(ctx, commit, 0); err != nil || again != first {
		t.Fatalf("the same commit: sequence %d, %v; want %d", again, err, first)
	}
	_, err = l.RankEpoch(ctx, schema.RankEpoch{Gen: 1, Window: 3, RankEpoch: 1}, 0)
	var lost *broker.LostError
	if !errors.As(err, &lost) || lost.Winner.Seq != first {
		t.Fatalf("epoch after commit: got %v, want to lose to sequence %d", err, first)
	}
	if c, ok := lost.Winner.Record.(schema.Commit); !ok || !slices.Equal(c.Batches, commit.Batches) {
		t.Errorf("winner %+v", lost.Winner.Record)
	}
	if _, err = l.Dead(ctx, schema.Dead{Batch: batch(1, 3, 1)}, 17); !errors.As(err, &lost) || lost.Winner.Record != nil {
		t.Errorf("expecting a record on an empty subject: got %v", err)
	}
}

func TestLedgerStateAndGenerations(t *testing.T) {
	b := brokertest.Start(t)
	ctx := brokertest.Context(t)
	l := b.Conn("test", broker.Options{}).Ledger()
	if gen, err := l.LastGen(ctx); err != nil || gen.Gen != 0 {
		t.Fatalf("empty ledger: %+v, %v", gen, err)
	}
	if entries, at, err := l.State(ctx, broker.LedgerAll); err != nil || len(entries) != 0 || at != 0 {
		t.Fatalf("empty ledger: %d records, %d, %v", len(entries), at, err)
	}
	for gen := uint32(1); gen <= 11; gen++ { // 11 sorts before 2 as text
		if _, err := l.Gen(ctx, schema.Gen{Run: "test", Gen: gen, Start: 2 * gen}); err != nil {
			t.Fatal(err)
		}
	}
	if gen, err := l.LastGen(ctx); err != nil || gen.Gen != 11 || gen.Start != 22 {
		t.Fatalf("last generation: %+v, %v", gen, err)
	}
	var want []uint64
	for i := range uint32(600) { // more than one request's worth
		seq, err := l.Claim(ctx, schema.Claim{Batch: batch(11, 22, i), Rank: "r"}, 0)
		if err == nil {
			seq, err = l.Added(ctx, schema.Added{Batch: batch(11, 22, i), Rank: "r"}, seq)
		}
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, seq)
	}
	entries, _, err := l.State(ctx, broker.LedgerWindow(11, 22))
	if err != nil || len(entries) != len(want) {
		t.Fatalf("%d records, %v; want %d", len(entries), err, len(want))
	}
	for i, e := range entries {
		if a, ok := e.Record.(schema.Added); !ok || a.Index != uint32(i) || e.Seq != want[i] {
			t.Fatalf("record %d is %+v, want the addition at %d", i, e, want[i])
		}
	}
	if all, _, err := l.History(ctx, broker.LedgerGeneration(11)); err != nil || len(all) != 2*len(want)+1 {
		t.Errorf("history of %d records, %v; want %d", len(all), err, 2*len(want)+1)
	}
}

func TestFollowIsOrderedAndWholeThroughRestarts(t *testing.T) {
	type follow func(context.Context, broker.Ledger, func(broker.Entry) error) error
	for name, follow := range map[string]follow{
		"follow": func(ctx context.Context, l broker.Ledger, f func(broker.Entry) error) error {
			return l.Follow(ctx, broker.LedgerAll, 0, f)
		},
		"trail": func(ctx context.Context, l broker.Ledger, f func(broker.Entry) error) error {
			return l.Trail(ctx, 5*time.Millisecond, f)
		},
	} {
		t.Run(name, func(t *testing.T) { followThroughRestarts(t, follow) })
	}
}

func followThroughRestarts(t *testing.T, follow func(context.Context, broker.Ledger, func(broker.Entry) error) error) {
	p := brokertest.StartProcess(t, "default")
	c := p.Conn("follower", broker.Options{})
	w := p.Conn("writer", broker.Options{}).Ledger()
	ctx, cancel := context.WithCancel(brokertest.Context(t))
	defer cancel()
	const n = 150
	for i := range uint32(n) {
		if _, err := w.Claim(ctx, schema.Claim{Batch: batch(1, 0, i)}, 0); err != nil {
			t.Fatal(err)
		}
	}
	var seen atomic.Uint32
	done := make(chan error, 1)
	end := errors.New("end")
	go func() {
		done <- follow(ctx, c.Ledger(), func(e broker.Entry) error {
			i := e.Record.(schema.Claim).Index
			if i != seen.Load() {
				return fmt.Errorf("got batch %d, want %d", i, seen.Load())
			}
			if seen.Add(1) == 3*n {
				return end
			}
			return nil
		})
	}()
	for round := uint32(1); round < 3; round++ {
		brokertest.Until(t, "some records", func() bool { return seen.Load() > round*n/2 })
		p.Kill()
		p.Restart()
		for i := round * n; i < (round+1)*n; i++ {
			if _, err := w.Claim(ctx, schema.Claim{Batch: batch(1, 0, i)}, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := <-done; !errors.Is(err, end) {
		t.Fatalf("follow: %v after %d records", err, seen.Load())
	}
}

func TestFrontIsGenerationsAndCommitsAlone(t *testing.T) {
	b := brokertest.Start(t)
	ctx := brokertest.Context(t)
	l := b.Conn("test", broker.Options{}).Ledger()
	end := errors.New("end")
	var kinds []string
	done := make(chan error, 1)
	go func() {
		done <- l.FollowFront(ctx, func(e broker.Entry) error {
			kinds = append(kinds, e.Record.Kind())
			if c, ok := e.Record.(schema.Commit); ok && c.Window == 1 {
				return end
			}
			return nil
		})
	}()
	if _, err := l.Gen(ctx, schema.Gen{Run: "test", Gen: 1}); err != nil {
		t.Fatal(err)
	}
	for w := range uint32(2) {
		seq, err := l.Claim(ctx, schema.Claim{Batch: batch(1, w, w), Rank: "r"}, 0)
		if err == nil {
			_, err = l.Added(ctx, schema.Added{Batch: batch(1, w, w), Rank: "r"}, seq)
		}
		if err == nil {
			_, err = l.Commit(ctx, schema.Commit{Run: "test", Gen: 1, Window: w, Batches: []uint32{w}}, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; !errors.Is(err, end) {
		t.Fatal(err)
	}
	if want := []string{"gen", "commit", "commit"}; !slices.Equal(kinds, want) {
		t.Errorf("followed %v, want %v", kinds, want)
	}
}

func TestFollowEndsWithItsContextWhileTheServerIsAway(t *testing.T) {
	p := brokertest.StartProcess(t, "default")
	c := p.Conn("follower", broker.Options{})
	ctx, cancel := context.WithCancelCause(brokertest.Context(t))
	why := errors.New("told to stop")
	done := make(chan error, 1)
	go func() { done <- c.Ledger().Follow(ctx, broker.LedgerAll, 0, func(broker.Entry) error { return nil }) }()
	p.Kill()
	brokertest.Until(t, "the connection to break", func() bool { return !c.Connected() })
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Fatalf("follow: %v, want its context's cause", err)
	}
}
