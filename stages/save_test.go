package stages_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"penstock/broker"
	"penstock/kernels"
	"penstock/schema"
	"penstock/schema/checkpoint"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/lineage"
	"penstock/stages/internal/worker"
	"penstock/stages/stagestest"
)

// atWindow calls f once so many windows have committed.
func atWindow(ctx context.Context, p *stagestest.Pipeline, windows uint32, f func() error) error {
	conn, err := p.Dial(ctx, broker.RoleObserver)
	if err != nil {
		return err
	}
	defer conn.Close()
	reached := errors.New("reached")
	err = conn.Ledger().Follow(ctx, broker.LedgerControls, 0, func(e broker.Entry) error {
		if c, ok := e.Record.(schema.Commit); ok && c.Window+1 >= windows {
			return reached
		}
		return nil
	})
	if !errors.Is(err, reached) {
		return err
	}
	return f()
}

// TestCheckpointsThatCannotBeWritten takes the place of the checkpoints away in the middle of a run: the run goes on from
// memory, and ends well if it can save at the end.
func TestCheckpointsThatCannotBeWritten(t *testing.T) {
	config := stagestest.Config(t, 60, func(c *schema.Config) {
		c.Broker.AckWait = "1s"
		c.Save = schema.SaveConfig{Every: 1, Keep: 2}
	})
	for _, back := range []bool{true, false} {
		p := stagestest.New(t, config)
		place := p.Dir.Checkpoints()
		err := p.Run(t.Context(), func(ctx context.Context) error {
			err := atWindow(ctx, p, 2, func() error {
				return errors.Join(os.Rename(place, place+".away"), os.WriteFile(place, nil, 0o600))
			})
			if err != nil || !back {
				return err
			}
			return atWindow(ctx, p, 6, func() error { return errors.Join(os.Remove(place), os.Rename(place+".away", place)) })
		})
		if !back {
			if err == nil || !strings.Contains(err.Error(), "the run is complete and cannot be saved") {
				t.Errorf("never back: the run ends with %v", err)
			}
			c, _, err := checkpoint.Latest(place + ".away") // written in the middle of the run, as after a death
			if err != nil {
				t.Fatal(err)
			}
			if c.Totals.Seconds <= 0 {
				t.Errorf("after %d windows the checkpoint counts %v s of training", c.Window, c.Totals.Seconds)
			}
			c.Close()
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		c, bad, err := checkpoint.Latest(place)
		if err != nil || len(bad) > 0 {
			t.Fatal(err, bad)
		}
		got := count(t, p)
		if int(c.Window) != got.Planned || got.Missing != 0 || got.Windows != got.Planned || got.Documents != 60 {
			t.Errorf("last checkpoint is of window %d, ledger %+v", c.Window, got)
		}
		c.Close()
	}
}

// TestStopThatCannotSaveSaysSo asks a run to stop whose checkpoints cannot be written: it ends, and what is lost is on the board.
func TestStopThatCannotSaveSaysSo(t *testing.T) {
	p := stagestest.New(t, stagestest.Config(t, 60, func(c *schema.Config) { c.Train.Epochs = 50 }))
	var said atomic.Int32
	p.Fault = func(instance string, op broker.Op, subject string) broker.Outcome {
		if instance == "draft-1" && op == broker.OpPublish && subject == "ps.board.note.draft-1" {
			said.Add(1)
		}
		return broker.Pass
	}
	err := p.Run(t.Context(), func(ctx context.Context) error {
		return atWindow(ctx, p, 2, func() error {
			place := p.Dir.Checkpoints()
			if err := errors.Join(os.RemoveAll(place), os.WriteFile(place, nil, 0o600)); err != nil {
				return err
			}
			conn, err := p.Dial(ctx, broker.RoleUp)
			if err != nil {
				return err
			}
			defer conn.Close()
			return conn.Board().Put(ctx, worker.KeyControl, schema.Control{Run: p.Dir.Name(), Want: "stop"})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := said.Load(); n != 1 {
		t.Errorf("%d notes of a stop that does not save", n)
	}
}

// TestUnsavedEndIsDoneAgain takes the place of the checkpoints away until a run is complete and cannot be saved. When it goes
// on, the stages find the old, complete generation before the drafter has looked what is left, and wait for its word.
func TestUnsavedEndIsDoneAgain(t *testing.T) {
	p := stagestest.New(t, stagestest.Config(t, 60, func(c *schema.Config) {
		c.Broker.AckWait = "1s"
		c.Save = schema.SaveConfig{Every: 1, Keep: 2}
	}))
	place := p.Dir.Checkpoints()
	err := p.Run(t.Context(), func(ctx context.Context) error {
		return atWindow(ctx, p, 2, func() error {
			return errors.Join(os.Rename(place, place+".away"), os.WriteFile(place, nil, 0o600))
		})
	})
	if err == nil || !strings.Contains(err.Error(), "the run is complete and cannot be saved") {
		t.Fatalf("a run that cannot be saved ends with %v", err)
	}
	if err := errors.Join(os.Remove(place), os.Rename(place+".away", place)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	p.Open = func(instance, device string) (kernels.Device, error) {
		if instance == "draft-1" { // which opens its device before it looks what is left
			if err := othersWait(t.Context(), p, began); err != nil {
				return nil, err
			}
		}
		return backend.Open(device)
	}
	if err := p.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := count(t, p); got.Missing != 0 || got.Duplicates != 0 || got.Windows != got.Planned || got.Documents != 60 {
		t.Errorf("ledger %+v", got)
	}
}

// TestDeathBehindTheLastCommit cuts the only rank off when the last window has committed and nothing of it is saved. The other
// stages are there for its successor, which trains what was lost in another generation.
func TestDeathBehindTheLastCommit(t *testing.T) {
	p := stagestest.New(t, stagestest.Config(t, 60, func(c *schema.Config) {
		c.Window.Batches = 4
		c.Save = schema.SaveConfig{Every: 2, Keep: 2}
	}))
	run, _, err := worker.Prepare(t.Context(), p.Config, p.Dir)
	if err != nil {
		t.Fatal(err)
	}
	commit := broker.LedgerControl(1, uint32(run.Plan.Windows()-1))
	if err := run.Store.Close(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var committing atomic.Bool
	var once sync.Once
	var waited error
	p.Fault = func(instance string, _ broker.Op, subject string) broker.Outcome {
		o := broker.Pass
		switch {
		case instance != "draft-1":
		case subject == commit:
			committing.Store(true)
		case subject == "ps.board.progress" && committing.Load():
			once.Do(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				waited, o = othersWait(ctx, p, began), broker.Cut
			})
		}
		return o
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.Run(ctx, nil); err != nil || waited != nil {
		t.Fatal(err, waited)
	}
	lines, err := lineage.Read(p.Dir.Ledger())
	if err != nil {
		t.Fatal(err)
	}
	gens := lines[len(lines)-1].Gen
	if got := count(t, p); got.Missing != 0 || got.Duplicates != 0 || got.Windows != got.Planned || got.Documents != 60 || gens != 2 {
		t.Errorf("%d generations, ledger %+v", gens, got)
	}
}

// othersWait returns once every stage but the drafter's says that it waits for the drafter, and fails if one ends.
func othersWait(ctx context.Context, p *stagestest.Pipeline, began time.Time) error {
	conn, err := p.Dial(ctx, broker.RoleObserver)
	if err != nil {
		return err
	}
	defer conn.Close()
	reached, waits := errors.New("reached"), map[string]bool{}
	err = conn.Board().Watch(ctx, "stage.*", func(h broker.Hint) error {
		s, ok := h.Record.(schema.StageState)
		if !ok || s.Stage == "draft" || h.Stored.Before(began) {
			return nil
		}
		if s.State == "done" {
			return fmt.Errorf("%s has ended", s.Instance)
		}
		waits[s.Instance] = s.Waiting == "the draft stage to say whether the run is complete"
		for _, instance := range []string{"batch", "target-1", "target-2", "pack-1"} {
			if !waits[instance] {
				return nil
			}
		}
		return reached
	})
	if errors.Is(err, reached) {
		return nil
	}
	return err
}
