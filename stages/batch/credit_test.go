package batch

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"penstock/broker"
	"penstock/broker/brokertest"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/metrics"
	"penstock/stages/internal/observe"
	"penstock/stages/internal/plan"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type lengths []int

func (l lengths) Len() int         { return len(l) }
func (l lengths) Length(i int) int { return l[i] }

// newBuilder is a builder of generation 1 over a plan of two buckets, of which b64 has two batches a window and b8 one.
func newBuilder(t *testing.T, conn *broker.Conn) *builder {
	t.Helper()
	c := schema.Default()
	c.Data = schema.DataConfig{MaxLength: 64, Buckets: "8,64"}
	c.Batch.Tokens, c.Train.Epochs = 64, 1
	c.Window = schema.WindowConfig{Batches: 3, Lookahead: 1}
	c.Target.Instances, c.Draft.Ranks = 1, 1
	var docs lengths
	for range 40 {
		docs = append(docs, 64)
	}
	for range 20 * 8 {
		docs = append(docs, 8)
	}
	p, err := plan.New(docs, &c)
	if err != nil {
		t.Fatal(err)
	}
	return &builder{plan: p, gen: 1,
		w: &worker.Worker{Env: &runtime.Env{Config: c}, Conn: conn, Ledger: worker.NewFollower(),
			Observer: &observe.Observer{Metrics: metrics.New("r", "batch", "batch")}}}
}

func TestLimitsThatCoverNoWindowAreRefused(t *testing.T) {
	b := brokertest.Start(t)
	conn := b.Conn("batch", broker.Options{})
	bl := newBuilder(t, conn)
	ctx := brokertest.Context(t)
	brokertest.Open(t, conn, 1, 1, "b8", "b64")
	err := bl.suffice(ctx)
	if err == nil || !runtime.IsPermanent(err) || !strings.Contains(err.Error(), "bucket b64 has a pull limit of 1; it needs at least 2") {
		t.Errorf("a limit below the floor: %v", err)
	}
	if err := conn.SetCredit(ctx, 1, "b64", 2); err != nil {
		t.Fatal(err)
	}
	if err := bl.suffice(ctx); err != nil {
		t.Errorf("limits at their floors: %v", err)
	}
	bl.w.Config.Draft.Ranks = 4
	if err := bl.suffice(ctx); !runtime.IsPermanent(err) || !strings.Contains(err.Error(), "cannot feed 4 ranks") {
		t.Errorf("more ranks than batches: %v", err)
	}
}

// Nothing has been taken of either bucket, so each may be taken a window's worth of, and one more for the target; once the
// poorer one is ahead, the other's limit rises again, at once.
func TestLimitsMove(t *testing.T) {
	b := brokertest.Start(t)
	conn := b.Conn("batch", broker.Options{})
	bl := newBuilder(t, conn)
	ctx := brokertest.Context(t)
	brokertest.Open(t, conn, 1, 4, "b8", "b64")
	bl.w.Ledger.Apply(broker.Entry{Seq: 1, Record: schema.Gen{Gen: 1}})
	run, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- bl.balance(run, []*atomic.Uint32{new(atomic.Uint32), new(atomic.Uint32)}, nil) }()
	brokertest.WaitCredit(t, conn, 1, "b64", func(c broker.Credit) bool { return c.Limit == 2 })

	fwd := broker.NewPublisher(conn, broker.Fwd)
	pull := func(bucket string, n int) {
		p, err := conn.Roots(ctx, 1, bucket)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close(ctx)
		for i := range n {
			r := schema.Root{Batch: schema.Batch{Run: "r", Gen: 1, Index: uint32(i), Bucket: bucket}}
			if err := fwd.Publish(ctx, bucket, r, ""); err != nil {
				t.Fatal(err)
			}
			brokertest.Fetch(t, p)
		}
	}
	pull("b8", 1)
	pull("b64", 2)
	brokertest.WaitCredit(t, conn, 1, "b64", func(c broker.Credit) bool { return c.Limit == 4 && c.Open == 2 })
	hint, ok, err := conn.Board().Get(ctx, "bucket.b64")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if s := hint.Record.(schema.BucketState); s.Floor != 2 || s.Ceiling != 4 || s.Credit < 2 || s.Credit > 4 {
		t.Errorf("on the board: %+v", s)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestStocks(t *testing.T) {
	bl := newBuilder(t, nil)
	got := bl.stocks([]policy.Limits{{Floor: 1, Ceiling: 2}, {Floor: 2, Ceiling: 4}}, []broker.Credit{{Open: 1, Queued: 1}, {Open: 3}})
	want := []policy.Stock{
		{Limits: policy.Limits{Floor: 1, Ceiling: 2}, Open: 1, Within: 2, Left: 2},
		{Limits: policy.Limits{Floor: 2, Ceiling: 4}, Open: 3, Within: 4, Left: 1},
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("bucket %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}
