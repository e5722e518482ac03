package page

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"penstock/broker"
	"penstock/schema"
	"penstock/stages/internal/monitor"
	"penstock/stages/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSeriesKeepsAllTimeInFewerCells(t *testing.T) {
	s := newSeries(1, 8, false)
	for range 1000 {
		s.tick(map[string]map[string]float64{"p": {"compute": 0.75, "no input": 0.25}})
		if len(s.cells) > 8 {
			t.Fatalf("%d cells", len(s.cells))
		}
	}
	sum := 0.0
	for _, c := range s.cells {
		sum += c["p"]["compute"] + c["p"]["no input"]
	}
	if math.Abs(sum-1000) > 1e-6 {
		t.Errorf("%g of 1000 seconds are left", sum)
	}
	for _, share := range s.timeline([]string{"p"}).Processes[0].Shares["compute"] {
		if share != 0.75 {
			t.Errorf("a share of %g", share)
		}
	}
	if full := s.cells[0]["p"]["compute"] + s.cells[0]["p"]["no input"]; math.Abs(full-s.cell) > 1e-6 {
		t.Errorf("a cell of %g s holds %g s", s.cell, full)
	}
}

func TestMeterStartsAgainWithAProcess(t *testing.T) {
	m := newMeter()
	at := func(pid int32, x float64) float64 {
		return m.spent([]monitor.Stage{{Instance: "p", PID: pid, Seconds: map[string]float64{"compute": x}}})["p"]["compute"]
	}
	for i, c := range []struct {
		pid  int32
		x    float64
		want float64
	}{{1, 2, 2}, {1, 5, 3}, {1, 5, 0}, {2, 1, 1}, {2, 4, 3}} {
		if got := at(c.pid, c.x); got != c.want {
			t.Errorf("%d: %g, want %g", i, got, c.want)
		}
	}
}

func TestHistoryFollowsAndForgetsWhatIsRedone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	h := &history{path: path}
	if err := h.follow(); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := h.follow(); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"window":0,"loss":4,"hits":[0.5],"seconds":1}` + "\n" + `{"window":1,"loss":3,"hits":[0.25],"seco`)
	if len(h.steps) != 1 {
		t.Fatalf("%d steps before the line is whole", len(h.steps))
	}
	write(`nds":3}` + "\n" + `{"window":2,"accept_length":1.5}` + "\n" + `{"window":2,"skipped":"w","seconds":5}` + "\n")
	c := h.curves()
	if len(c.Windows) != 2 || c.Loss[1] != 3 || len(c.Evals) != 1 || c.StepSeconds != 2 || len(h.skipped) != 1 {
		t.Errorf("curves are %+v, %d skipped", c, len(h.skipped))
	}
	write(`{"window":1,"loss":2.5,"cross_entropy":1.5,"seconds":1}` + "\n") // a new generation redoes it
	if c = h.curves(); len(c.Windows) != 2 || c.Loss[1] != 2.5 || len(c.CrossEntropy) != 2 || c.CrossEntropy[1] != 1.5 {
		t.Errorf("after a window is redone the curves are %+v", c)
	}
	for i := 2; i < 2000; i++ {
		h.take(line{Window: uint32(i), Loss: 1})
	}
	if c = h.curves(); len(c.Windows) > curvePoints || c.Windows[len(c.Windows)-1] != 2000 {
		t.Errorf("%d points, the last at %d", len(c.Windows), c.Windows[len(c.Windows)-1])
	}
}

func TestCurvesByPosition(t *testing.T) {
	h := &history{}
	for i := range uint32(recentSteps + 5) { // of which the first five are too old
		x := float64(i % 2)
		h.take(line{Window: i, Hits: []float64{1, x}, Accepted: []float64{1, x / 2}, Tokens: 100, Slots: 10, Seconds: float64(i + 1)})
	}
	h.take(line{Window: 25, AcceptLength: 1.5, PerPosition: []float64{0.5, 0}})
	c := h.curves()
	near := func(got []float64, want ...float64) bool {
		return slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	}
	if !near(c.Hits, 1, 0.5) || !near(c.Accepted, 1, 0.25) || len(c.Evals) != 1 || !near(c.Evals[0].PerPosition, 0.5, 0) {
		t.Errorf("hits %v, accepted %v, evals %v", c.Hits, c.Accepted, c.Evals)
	}
	if tokens, slots := h.speed(); tokens != 100 || slots != 10 {
		t.Errorf("%v tokens/s, %v slots/s, want 100, 10", tokens, slots)
	}
	h.take(line{Window: 25, Tokens: 300, Slots: 30, Seconds: 2}) // a trainer that took over
	if tokens, slots := h.speed(); tokens != 150 || slots != 15 {
		t.Errorf("%v tokens/s, %v slots/s, want those of the latest trainer, 150, 15", tokens, slots)
	}
}

func TestCountsFollowTheLineage(t *testing.T) {
	var c counts
	apply := func(recs ...schema.Record) {
		for _, r := range recs {
			c.apply(broker.Entry{Record: r, Stored: time.Unix(1, 0)})
		}
	}
	batch := func(w, i uint32) schema.Batch { return schema.Batch{Gen: 1, Window: w, Index: i, Bucket: "b96"} }
	apply(schema.Gen{Gen: 1}, schema.Claim{Batch: batch(0, 0)}, schema.Added{Batch: batch(0, 0), Tokens: 10, Documents: 2}, schema.Commit{Window: 0},
		schema.Added{Batch: batch(1, 1), Tokens: 20}, schema.Suspect{Batch: batch(1, 2), Reason: "not finite"}, schema.Dead{Batch: batch(1, 2), Reason: "not finite"},
		schema.Commit{Window: 1})
	if got := c.trained["b96"]; got != (tally{2, 30}) || c.ledger.Documents != 2 || c.ledger.Dead != 1 || len(c.problems) != 2 {
		t.Errorf("counted %v, %+v, %v", got, c.ledger, c.problems)
	}
	apply(schema.Gen{Gen: 2, Start: 1}, schema.Added{Batch: batch(1, 1), Tokens: 20})
	if got := c.trained["b96"]; got != (tally{1, 10}) {
		t.Errorf("the windows that a generation redoes still count: %v", got)
	}
}

func TestProblemsThatAreShown(t *testing.T) {
	var list []Problem
	for i := range 3 * keepProblems {
		list = among(list, Problem{At: float64(i)})
	}
	if len(list) != keepProblems || list[0].At != 2*keepProblems {
		t.Errorf("%d problems, from %v on", len(list), list[0].At)
	}
}

func TestWaterfallsAreWholeAndTheSlowestFirst(t *testing.T) {
	w := newWaterfalls()
	for i := range uint32(10) {
		start := int64(1000 * i)
		w.take(telemetry.Entry{Name: telemetry.Acknowledge, Batch: i, Start: start + 10, End: start + 20 + int64(i)})
		w.take(telemetry.Entry{Name: telemetry.Build, Batch: i, Start: start, End: start + 1})
		if w.settle(); len(w.done) != int(i) {
			t.Fatalf("%d done before the commit of batch %d", len(w.done), i)
		}
		w.take(telemetry.Entry{Name: telemetry.Commit, Batch: i, Start: start + 5, End: start + 15})
		w.take(telemetry.Entry{Name: telemetry.Step, Batch: i})
	}
	w.take(telemetry.Entry{Name: telemetry.Build, Batch: 99})
	w.settle()
	got := w.slowest()
	if len(got) != shown || got[0].Batch != 9 || got[1].Batch != 8 {
		t.Errorf("slowest are %+v", got)
	}
	if len(got[0].Spans) != 3 || got[0].Spans[0].Name != telemetry.Build || len(w.open) != 1 {
		t.Errorf("a trace is %+v; %d open", got[0].Spans, len(w.open))
	}
}

func TestHealth(t *testing.T) {
	now := time.Unix(1000, 0)
	lane := func(name string, work, wait float64, cause string) Process {
		return Process{name, map[string][]float64{"compute": {work}, cause: {wait}}}
	}
	busy := []Process{lane("target-1", 0.3, 0.7, "no slot"), lane("draft-1", 0.9, 0.1, "no input")}
	running := State{View: monitor.View{Windows: 5, Total: 10}, Timeline: Timeline{Processes: busy}}
	for _, c := range []struct {
		name, level, text string
		after             time.Duration
		change            func(*State)
	}{
		{"busy", "ok", "draft-1 is the bottleneck, idle 10 %. Waiting: target-1 70 % (no slot).", 0, nil},
		{"stuck", "bad", "Stuck: no step for 40 s.", 40 * time.Second, nil},
		{"slow, not stuck", "ok", "draft-1 is the bottleneck", 40 * time.Second, func(s *State) { s.Curves.StepSeconds = 20 }},
		{"silent", "bad", "No word from pack-1.", 0, func(s *State) { s.Stages = []monitor.Stage{{Instance: "pack-1", Age: 60}} }},
		{"rejecting", "warn", "Rejected batches: 2.", 0, func(s *State) { s.Dead = 2 }},
		{"diverging", "warn", "Skipped steps: 3.", 0, func(s *State) { s.Skipped = 3 }},
		{"starved", "warn", "Nobody is busy. Waiting: target-1 70 % (no slot), draft-1 60 % (window).", 0, func(s *State) {
			s.Timeline.Processes = []Process{busy[0], lane("draft-1", 0.4, 0.6, "window")}
		}},
		{"many", "ok", "draft-1 is the bottleneck, idle 10 %. Waiting: 3 targets 80 % (no slot), target-4 60 % (no input).", 0, func(s *State) {
			s.Timeline.Processes = []Process{busy[0], lane("target-2", 0.2, 0.8, "no slot"), lane("target-3", 0.1, 0.9, "no slot"), lane("target-4", 0.4, 0.6, "no input"), busy[1]}
		}},
		{"starting", "ok", "Starting: 2 targets wait for the plan; draft-1 waits for the plan.", 0, func(s *State) {
			s.Windows, s.Stages = 0, []monitor.Stage{{Instance: "target-1", State: "waiting", Waiting: "the plan"},
				{Instance: "target-2", State: "waiting", Waiting: "the plan"}, {Instance: "draft-1", State: "waiting", Waiting: "the plan"}}
		}},
		{"done", "ok", "Finished: 5 steps.", 0, func(s *State) { s.Done = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := judge{windows: 5, since: now}
			s := running
			if c.change != nil {
				c.change(&s)
				j.windows = s.Windows
			}
			got := j.judge(now.Add(c.after), s)
			if got.Level != c.level || !strings.HasPrefix(got.Text, c.text) {
				t.Errorf("%s: %s", got.Level, got.Text)
			}
		})
	}
}

func TestReachable(t *testing.T) {
	for _, c := range []struct{ address, by, want string }{
		{"127.0.0.1:80", "there:8080", "127.0.0.1:80"}, {"[::]:80", "there:8080", "there:80"}, {"0.0.0.0:80", "there", "there:80"},
		{"[::]:80", "[fe80::1]:8080", "[fe80::1]:80"},
	} {
		if got := reachable(c.address, c.by); got != c.want {
			t.Errorf("%s by %s: %s, want %s", c.address, c.by, got, c.want)
		}
	}
}

func TestReportHoldsEverything(t *testing.T) {
	c := &Collector{whole: newSeries(1, 10, false), state: State{Dir: "</script><b>"}}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := c.WriteReport(path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, foreign := range []string{"src=", "<link rel=\"stylesheet\"", "</script><b>", "@import"} {
		if strings.Contains(string(b), foreign) {
			t.Errorf("the report has %s", foreign)
		}
	}
	if n := fmt.Sprint(strings.Count(string(b), "<script")); n != "3" {
		t.Errorf("%s scripts", n)
	}
}
