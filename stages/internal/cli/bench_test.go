package cli

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/testscript"

	"penstock/schema"
	"penstock/stages/internal/scenario"
)

// predicted holds a bench's report: the simulator says nearly what was measured, and neither is above the bound. What else the
// machine does delays messages, of which the report has only the mean.
func predicted(ts *testscript.TestScript, neg bool, args []string) {
	const near = 0.08
	var r runReport
	if err := json.Unmarshal([]byte(ts.ReadFile(args[0])), &r); err != nil {
		ts.Fatalf("%v", err)
	}
	if r.Predicted == 0 || math.Abs(r.Predicted/r.TokensS-1) > near {
		ts.Fatalf("%.0f tokens/s measured, %.0f predicted from %+v", r.TokensS, r.Predicted, r.Measured)
	}
	if r.TokensS > r.Bound || r.Predicted > r.Bound {
		ts.Fatalf("%.0f tokens/s, %.0f predicted: above the bound %.0f", r.TokensS, r.Predicted, r.Bound)
	}
}

// What was done before the first measured window, and behind the last, does not count.
func TestSeen(t *testing.T) {
	s := newSeen(2, 4)
	at := func(at int64, batches uint64) {
		s.take(schema.StageState{Instance: "target-1", Stage: "target", At: at, Done: map[string]uint64{"forward": batches},
			Took:    map[string]float64{"forward": 0.5 * float64(batches)},
			Seconds: map[string]float64{"starting": 9, "compute": 0.5 * float64(batches), "no slot": float64(at) - 0.5*float64(batches)}})
		s.take(schema.StageState{Instance: "draft-1", Stage: "draft", At: at, Done: map[string]uint64{"train": 2 * batches, "turn": batches, "turn: step": batches},
			Took: map[string]float64{"train": 0.5 * float64(batches), "turn": 0.125 * float64(batches), "turn: step": 0.0625 * float64(batches)}})
	}
	pulls := func(at int64, mega uint64) {
		s.take(schema.StageState{Instance: "pack-1", Stage: "pack", At: at, Done: map[string]uint64{"pull": mega << 20},
			Took: map[string]float64{"pull": 2 * float64(mega)}})
	}
	committed := func(at int64, windows uint32) { s.take(schema.Progress{At: at, Windows: windows}) }
	if s.pulled() != nil || s.mean("target", "forward") != 0 {
		t.Error("something was measured of nothing")
	}
	s.take(schema.PlanInfo{Store: "x.store"})
	at(0, 100)
	pulls(0, 5)
	committed(1, 1)
	at(2, 101)
	pulls(2, 6)
	committed(3, 2)
	at(4, 103)
	pulls(4, 8)
	committed(5, 4)
	at(6, 105)
	pulls(6, 10)
	committed(7, 5)
	at(8, 999)
	want := scenario.Measured{Tokens: 7, Forward: 0.5, Step: 0.25, Turn: 0.125}
	if d := cmp.Diff(want, s.measured(7)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]float64{"target-1": 0.5, "draft-1": 0, "pack-1": 0}, s.idle(), cmpopts.EquateApprox(1e-9, 0)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(&peer{Bytes: 4 << 20, Seconds: 8, BytesS: 1 << 19}, s.pulled()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]float64{"step": 62.5}, s.turns()); d != "" {
		t.Error(d)
	}
	if s.plan().Store != "x.store" {
		t.Error("the plan was not seen")
	}
}

func TestAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "alone.jsonl")
	const target, draft = `{"tokens":1000,"tokens_s":2000}`, `{"batches":4,"seconds":8,"slots":9,"tokens_s":1000,"optimizer_s":0.5}`
	for text, want := range map[string]string{"": "needs a report", target: "needs a report", draft: "needs a report", "tokens": "alone.jsonl", target + "\n" + draft + "\n": ""} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		m := scenario.Measured{Tokens: 4000, Forward: 9, Step: 9, Pack: 1, Turn: 0.25}
		err := takeAlone(&m, path)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", text, err, want)
			}
			continue
		}
		if d := cmp.Diff(scenario.Measured{Tokens: 4000, Forward: 2, Step: 3, Optimizer: 0.5, Turn: 0.5, Pack: 1}, m); err != nil || d != "" {
			t.Error(err, d)
		}
	}
	if err := takeAlone(&scenario.Measured{}, path+"x"); err == nil {
		t.Error("a file that is not there was read")
	}
}
