package stages_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/broker"
	"penstock/kernels"
	"penstock/schema"
	"penstock/stages/internal/backend"
	"penstock/stages/stagestest"
)

// TestSecondsOfALeadThatDied has a rank join late, and then the one that led until then die: the summary, by the late one, counts
// the time of both.
func TestSecondsOfALeadThatDied(t *testing.T) {
	p := stagestest.New(t, stagestest.Config(t, 70, func(c *schema.Config) { small(c); c.Train.Epochs, c.Draft.Ranks = 3, 2 }))
	late := make(chan struct{})
	p.Open = func(instance, device string) (kernels.Device, error) {
		if instance == "draft-2" {
			<-late
		}
		return backend.Open(device)
	}
	var mu sync.Mutex
	added, died := 0, false
	p.Fault = func(instance string, op broker.Op, subject string) broker.Outcome {
		mu.Lock()
		defer mu.Unlock()
		if op != broker.OpPublish || died || !strings.Contains(subject, "ps.ledger.1.") {
			return broker.Pass
		}
		if instance == "draft-2" {
			added++
		}
		if died = instance == "draft-1" && added > 4; died {
			return broker.Cut
		}
		return broker.Pass
	}
	var first, last time.Time
	err := p.Run(t.Context(), func(ctx context.Context) error {
		conn, err := p.Dial(ctx, broker.RoleObserver)
		if err != nil {
			return err
		}
		defer conn.Close()
		return conn.Ledger().Follow(ctx, broker.LedgerControls, 0, func(e broker.Entry) error {
			c, ok := e.Record.(schema.Commit)
			switch {
			case ok && c.Window == 0:
				first = e.Stored
			case ok && c.Window == 6:
				close(late)
			}
			if ok {
				last = e.Stored
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Seconds float64 }
	b, err := os.ReadFile(p.Dir.Summary())
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	if took := last.Sub(first).Seconds(); !died || s.Seconds < took {
		t.Errorf("the lead died: %v; the summary says %.3f s, and from the first commit to the last %.3f s passed", died, s.Seconds, took)
	}
}
