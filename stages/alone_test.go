package stages_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/broker"
	"penstock/schema"
	"penstock/schema/checkpoint"
	"penstock/stages/internal/lineage"
	"penstock/stages/stagestest"
)

// interference does something once in place of the nth record that the rank alone is about to put on a ledger subject.
type interference struct {
	subject string
	nth     int
	do      func(ctx context.Context, conn *broker.Conn) error

	once sync.Once
	mu   sync.Mutex
	seen int
	err  error
}

func (i *interference) plant(t *testing.T, p *stagestest.Pipeline) {
	p.Fault = func(instance string, op broker.Op, subject string) broker.Outcome {
		if instance != "draft-1" || op != broker.OpPublish || subject != i.subject {
			return broker.Pass
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.seen++; i.seen == i.nth {
			i.once.Do(func() { i.err = i.meddle(t.Context(), p) })
		}
		return broker.Pass
	}
}

func (i *interference) meddle(ctx context.Context, p *stagestest.Pipeline) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := p.Dial(ctx, broker.RoleBroker)
	if err != nil {
		return err
	}
	defer conn.Close()
	return i.do(ctx, conn)
}

func aloneConfig(t *testing.T) schema.Config {
	return stagestest.Config(t, 40, func(c *schema.Config) {
		c.Deterministic = true
		c.Window.Batches = 4
		c.Data.Store = t.TempDir()
		c.Save = schema.SaveConfig{Every: 1, Keep: 2}
	})
}

// TestRefusedAdditions has somebody write behind the claim of a batch that the only rank has put into its sum. Bad features
// of another delivery change nothing; a batch that is declared dead makes the weights void, and a new generation trains
// it. Either way the run ends with the weights of one that was left alone.
func TestRefusedAdditions(t *testing.T) {
	config := aloneConfig(t)
	calm := stagestest.New(t, config)
	if err := calm.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	run := openPlan(t, calm)
	defer run.Store.Close()
	planned := run.Plan.Window(2)[1]
	subject := broker.LedgerBatch(1, 2, uint32(planned.Index))
	for _, c := range []struct {
		name string
		rec  func(b schema.Batch) schema.Record
		gens uint32
		want []string
	}{
		{"suspect", func(b schema.Batch) schema.Record { return schema.Suspect{Batch: b, Reason: "other features"} }, 1,
			[]string{"claim", "suspect", "claim", "added"}},
		{"dead", func(b schema.Batch) schema.Record { return schema.Dead{Batch: b, Reason: "other features"} }, 2,
			[]string{"claim", "dead"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := stagestest.New(t, config)
			b := schema.Batch{Run: p.Dir.Name(), Gen: 1, Epoch: uint32(planned.Epoch), Window: 2, Index: uint32(planned.Index), Bucket: planned.Bucket}
			i := &interference{subject: subject, nth: 2, do: func(ctx context.Context, conn *broker.Conn) error {
				last, err := conn.Ledger().Last(ctx, subject)
				if err == nil {
					_, err = conn.Ledger().Append(ctx, subject, c.rec(b), last.Seq)
				}
				return err
			}}
			i.plant(t, p)
			var kinds []string
			var gens uint32
			err := p.Run(t.Context(), func(ctx context.Context) error {
				conn, err := p.Dial(ctx, broker.RoleObserver)
				if err != nil {
					return err
				}
				defer conn.Close()
				err = conn.Ledger().Follow(ctx, broker.LedgerAll, 0, func(e broker.Entry) error {
					if e.Subject == subject {
						kinds = append(kinds, e.Record.Kind())
					}
					if g, ok := e.Record.(schema.Gen); ok {
						gens = max(gens, g.Gen)
					}
					return nil
				})
				if ctx.Err() != nil {
					err = nil
				}
				return err
			})
			if err != nil || i.err != nil {
				t.Fatal(err, i.err)
			}
			if got := fmt.Sprint(kinds); got != fmt.Sprint(c.want) || gens != c.gens {
				t.Errorf("the ledger says %s, in %d generations, want %v in %d", got, gens, c.want, c.gens)
			}
			if got, want := count(t, p), count(t, calm); got != want {
				t.Errorf("ledger %+v, undisturbed %+v", got, want)
			}
			if !bytes.Equal(weights(t, p), weights(t, calm)) {
				t.Error("other weights than undisturbed")
			}
		})
	}
}

// refuser writes behind a claim of the rank alone that the batch is dead, when that is about to be added: the first of one of
// its windows in each generation.
type refuser struct {
	windows []uint32
	often   int // at most, a window

	mu    sync.Mutex
	seen  map[string]int // records by subject
	gens  map[uint32]bool
	done  map[uint32]int // refusals by window
	total int
}

func (r *refuser) plant(t *testing.T, p *stagestest.Pipeline) {
	r.seen, r.gens, r.done = map[string]int{}, map[uint32]bool{}, map[uint32]int{}
	p.Fault = func(instance string, op broker.Op, subject string) broker.Outcome {
		var gen, window, index uint32
		if n, _ := fmt.Sscanf(subject, "ps.ledger.%d.%d.%d", &gen, &window, &index); n != 3 || instance != "draft-1" || op != broker.OpPublish {
			return broker.Pass
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen[subject]++ // the first is the claim
		if r.seen[subject] != 2 || r.gens[gen] || r.done[window] == r.often || !slices.Contains(r.windows, window) {
			return broker.Pass
		}
		r.gens[gen] = true
		r.done[window]++
		r.total++
		i := interference{do: func(ctx context.Context, conn *broker.Conn) error {
			last, err := conn.Ledger().Last(ctx, subject)
			if err == nil {
				_, err = conn.Ledger().Append(ctx, subject, schema.Dead{Batch: last.Record.(schema.Claim).Batch, Reason: "refused"}, last.Seq)
			}
			return err
		}}
		if err := i.meddle(t.Context(), p); err != nil {
			t.Error(err)
		}
		return broker.Pass
	}
}

// TestRefusedForEver: a rank alone gives up over a window that is refused again and again, though each generation commits the
// windows before it anew; refusals between which the run gets further do not add up.
func TestRefusedForEver(t *testing.T) {
	config := aloneConfig(t)
	config.Save = schema.SaveConfig{Every: 100, Keep: 2}
	for name, c := range map[string]struct {
		windows []uint32
		often   int // a window
		total   int // that there are
		want    string
	}{
		"one window":    {[]uint32{2}, 9, 5, "window 2 has been refused 5 times in a row"},
		"three windows": {[]uint32{1, 2, 3}, 3, 9, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := stagestest.New(t, config)
			r := &refuser{windows: c.windows, often: c.often}
			r.plant(t, p)
			err := p.Run(t.Context(), nil)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the run ends with %v, want %q", err, c.want)
			}
			if r.total != c.total {
				t.Errorf("%d refusals, want %d", r.total, c.total)
			}
			if c.want != "" {
				return
			}
			if got := count(t, p); got.Missing != 0 || got.Duplicates != 0 {
				t.Errorf("ledger %+v", got)
			}
		})
	}
}

// TestNothingComesBeforeTheCommit holds a commit back until the rank has claimed the next window: until then the step has
// not been told of, no checkpoint has it, its roots are open, and the next window has no addition.
func TestNothingComesBeforeTheCommit(t *testing.T) {
	const held = 3
	p := stagestest.New(t, aloneConfig(t))
	i := &interference{subject: broker.LedgerControl(1, held), nth: 1}
	i.do = func(ctx context.Context, conn *broker.Conn) error {
		claimed, cancel := context.WithCancel(ctx)
		defer cancel()
		err := conn.Ledger().Follow(claimed, broker.LedgerWindow(1, held+1), 0, func(e broker.Entry) error {
			if a, ok := e.Record.(schema.Added); ok {
				return fmt.Errorf("batch %d of the next window is added", a.Index)
			}
			cancel()
			return nil
		})
		if claimed.Err() == nil || ctx.Err() != nil {
			return fmt.Errorf("the next window: %w", err)
		}
		lines, err := lineage.Read(p.Dir.Ledger())
		if err != nil {
			return err
		}
		if last := lines[len(lines)-1].Window; last >= held {
			return fmt.Errorf("window %d is written to the ledger file", last)
		}
		list, err := checkpoint.List(p.Dir.Checkpoints())
		if err != nil {
			return err
		}
		for _, c := range list {
			if c.Window > held {
				return fmt.Errorf("a checkpoint of window %d is there", c.Window)
			}
		}
		return nil
	}
	i.plant(t, p)
	if err := p.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if i.err != nil {
		t.Error(i.err)
	}
	if i.seen == 0 {
		t.Error("no commit was held")
	}
	if got := count(t, p); got.Missing != 0 || got.Duplicates != 0 {
		t.Errorf("ledger %+v", got)
	}
}
