package stages_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"penstock/broker"
	"penstock/schema"
	"penstock/schema/checkpoint"
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
