// Package page shows a run in a browser: a live picture while `penstock up` runs, and the same as a file when it is
// over. It needs no network, no build step and nothing installed.
package page

import (
	"penstock/stages/internal/monitor"
	"penstock/stages/internal/telemetry"
)

// State is everything that the page shows, as /api/state answers it. Times are Unix seconds unless said otherwise.
type State struct {
	Seq   uint64  `json:"seq"` // one more with each change
	At    float64 `json:"at"`
	Dir   string  `json:"dir"`
	Ended bool    `json:"ended"` // nothing comes after this state; health says how the run ended

	Health Health `json:"health"`
	monitor.View
	Edges    []Edge             `json:"edges"`
	Rates    map[string]float64 `json:"rates"` // batches a second, by stage
	Timeline Timeline           `json:"timeline"`
	Curves   Curves             `json:"curves"`
	Mix      []Mix              `json:"mix"`
	Ledger   Ledger             `json:"ledger"`
	Slowest  []Trace            `json:"slowest"`
	Problems []Problem          `json:"problems"` // latest first
}

// Health is the run in one sentence.
type Health struct {
	Level string `json:"level"` // ok, warn or bad
	Text  string `json:"text"`
}

// Edge is a work queue between two stages.
type Edge struct {
	Subject string `json:"subject"`
	From    string `json:"from"`
	To      string `json:"to"`
	Waiting int    `json:"waiting"` // stored, not delivered; -1 where the broker was not asked
	Open    int    `json:"open"`    // delivered, not settled
}

// Timeline is what each process did with its time, in cells of equal length, oldest first.
type Timeline struct {
	Cell      float64   `json:"cell"` // seconds of one cell
	Processes []Process `json:"processes"`
}

// Process is the timeline of one process. A share is of the cell's time; what is missing was not reported.
type Process struct {
	Process string               `json:"process"`
	Shares  map[string][]float64 `json:"shares"` // by activity
}

// Curves are the steps of the run, thinned to what a screen can show, and the evaluations.
type Curves struct {
	Windows      []uint32  `json:"windows"`       // committed then; of several, the last
	Loss         []float64 `json:"loss"`          // mean of those that the point stands for
	CrossEntropy []float64 `json:"cross_entropy"` // likewise
	Evals        []Eval    `json:"evals"`
	Hits         []float64 `json:"hits"`     // share of right predictions by position, over the latest windows
	Accepted     []float64 `json:"accepted"` // share of those that are right with all before them in their block
	GradNorm     float64   `json:"grad_norm"`
	StepSeconds  float64   `json:"step_seconds"` // mean time between the latest commits
}

// Eval is an acceptance measurement.
type Eval struct {
	Window uint32  `json:"window"`
	Length float64 `json:"accept_length"`

	PerPosition []float64 `json:"per_position"` // share of rounds in which slots 1..k were all accepted
}

// Mix is a bucket's part of the training, against its part of the plan.
type Mix struct {
	Bucket  string `json:"bucket"`
	Batches uint64 `json:"batches"` // committed
	Tokens  uint64 `json:"tokens"`
	Planned uint64 `json:"planned"` // batches of the generation
}

// Ledger counts the ledger's records of this run's generation.
type Ledger struct {
	Generation uint32 `json:"generation"`
	Claimed    uint64 `json:"claimed"`
	Added      uint64 `json:"added"`
	Suspect    uint64 `json:"suspect"`
	Dead       uint64 `json:"dead"`
	Committed  uint64 `json:"committed"` // windows
	Documents  uint64 `json:"documents"` // of the batches added
}

// Trace is one batch on its way, as a waterfall.
type Trace struct {
	Batch   uint32            `json:"batch"`
	Window  uint32            `json:"window"`
	Bucket  string            `json:"bucket"`
	Tokens  uint32            `json:"tokens"`
	Seconds float64           `json:"seconds"` // from build to acknowledgement
	Spans   []telemetry.Entry `json:"spans"`
}

// Problem is something that went wrong.
type Problem struct {
	At   float64 `json:"at"`
	Who  string  `json:"who"`
	Text string  `json:"text"`
}
