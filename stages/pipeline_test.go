package stages_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"penstock/broker"
	"penstock/broker/brokertest"
	"penstock/schema"
	"penstock/schema/checkpoint"
	"penstock/schema/safetensors"
	"penstock/stages/internal/lineage"
	"penstock/stages/internal/worker"
	"penstock/stages/stagestest"
)

func TestMain(m *testing.M) {
	code := brokertest.Main(m)
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// count holds the run's ledger file against its plan.
func count(t *testing.T, p *stagestest.Pipeline) lineage.Report {
	t.Helper()
	lines, err := lineage.Read(p.Dir.Ledger())
	if err != nil {
		t.Fatal(err)
	}
	run := openPlan(t, p)
	defer run.Store.Close()
	return lineage.Count(lines, run)
}

// openPlan opens the plan that the run followed.
func openPlan(t *testing.T, p *stagestest.Pipeline) *worker.RunPlan {
	t.Helper()
	folder := p.Config.Data.Store
	if folder == "" {
		folder = p.Dir.Stores()
	}
	stores, err := filepath.Glob(filepath.Join(folder, "*.store"))
	if err != nil || len(stores) != 1 {
		t.Fatalf("stores %v, %v", stores, err)
	}
	run, err := worker.OpenPlan(p.Config, stores[0])
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestEveryDocumentIsTrainedOnce(t *testing.T) {
	p := stagestest.New(t, stagestest.Config(t, 120, func(c *schema.Config) { c.Train.Epochs = 2 }))
	watch := &watcher{}
	if err := p.Run(t.Context(), func(ctx context.Context) error { return watch.run(ctx, p) }); err != nil {
		t.Fatal(err)
	}
	r := count(t, p)
	if r.Documents != 240 || r.Missing != 0 || r.Duplicates != 0 || r.Rejected != 0 || r.Mismatched != 0 || r.Windows != r.Planned {
		t.Errorf("ledger: %+v, want 240 document-epochs", r)
	}
	if watch.seen == 0 || watch.checked == 0 {
		t.Errorf("watched %d messages and %d credits", watch.seen, watch.checked)
	}
	t.Logf("%d messages of at most %d bytes, %d looks at the consumers", watch.seen, watch.largest, watch.checked)
}

// watcher reads along on ps.> and asks the consumers for their own figures.
type watcher struct{ seen, largest, checked int }

func (w *watcher) run(ctx context.Context, p *stagestest.Pipeline) error {
	url, err := p.Env("watch", 1).NATS(ctx)
	if err != nil {
		return err
	}
	key, err := nats.NkeyOptionFromSeed(broker.KeyFile(p.Dir.Keys(), broker.RoleObserver))
	if err != nil {
		return err
	}
	nc, err := nats.Connect(url, key)
	if err != nil {
		return err
	}
	defer nc.Close()
	msgs := make(chan *nats.Msg, 1<<16)
	if _, err := nc.ChanSubscribe("ps.>", msgs); err != nil {
		return err
	}
	conn, err := p.Dial(ctx, broker.RoleObserver)
	if err != nil {
		return err
	}
	defer conn.Close()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	var buckets []string
	for {
		select {
		case m := <-msgs:
			w.seen++
			w.largest = max(w.largest, len(m.Data))
			if len(m.Data) > schema.MaxRecord {
				return fmt.Errorf("%d bytes on %s", len(m.Data), m.Subject)
			}
			if _, err := schema.DecodeAny(m.Data); err != nil {
				return fmt.Errorf("on %s: %w", m.Subject, err)
			}
		case <-look.C:
			hint, ok, err := conn.Board().Get(ctx, worker.KeyPlan)
			if err != nil && ctx.Err() == nil {
				return err
			}
			if plan, is := hint.Record.(schema.PlanInfo); ok && is && buckets == nil {
				for _, edge := range plan.Buckets {
					buckets = append(buckets, fmt.Sprintf("b%d", edge))
				}
			}
			for _, b := range buckets {
				c, err := conn.Credit(ctx, 1, b)
				if errors.Is(err, broker.ErrGone) || ctx.Err() != nil {
					continue
				}
				if err != nil {
					return err
				}
				w.checked++
				if c.Open > c.Limit {
					return fmt.Errorf("bucket %s: %d roots are open, the limit is %d", b, c.Open, c.Limit)
				}
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// weights returns the bytes of the newest checkpoint's tensors.
func weights(t *testing.T, p *stagestest.Pipeline) []byte {
	t.Helper()
	list, err := checkpoint.List(p.Dir.Checkpoints())
	if err != nil || len(list) == 0 {
		t.Fatalf("checkpoints %v, %v", list, err)
	}
	b, err := os.ReadFile(filepath.Join(list[0].Dir, safetensors.SingleFile))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDeterministicRunsAreBitIdentical(t *testing.T) {
	config := stagestest.Config(t, 60, func(c *schema.Config) { c.Deterministic = true })
	var first []byte
	for _, c := range []struct{ targets, packers int }{{1, 1}, {3, 1}, {2, 2}} {
		config.Target.Instances, config.Pack.Instances = c.targets, c.packers
		p := stagestest.New(t, config)
		if err := p.Run(t.Context(), nil); err != nil {
			t.Fatalf("%d targets, %d packers: %v", c.targets, c.packers, err)
		}
		got := weights(t, p)
		if first == nil {
			first = got
		}
		if !bytes.Equal(got, first) {
			t.Errorf("%d targets and %d packers trained other weights", c.targets, c.packers)
		}
	}
}

// TestExternalServer runs the stages against a nats-server that is a process of its own and none of ours.
func TestExternalServer(t *testing.T) {
	srv := brokertest.StartExternal(t)
	p := stagestest.New(t, stagestest.Config(t, 30, func(c *schema.Config) { c.Broker.URL = srv.URL }))
	if err := p.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if r := count(t, p); r.Documents != 30 || r.Missing != 0 || r.Duplicates != 0 {
		t.Errorf("ledger: %+v, want 30 documents", r)
	}
}
