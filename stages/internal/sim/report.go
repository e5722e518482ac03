package sim

import (
	"context"
	"math"
	"slices"

	"penstock/stages/internal/plan"
	"penstock/stages/internal/scenario"
)

// Report is the outcome of a simulation. Shares and rates are of the steady time, without the first and last windows.
type Report struct {
	Scenario   string                        `json:"scenario"`
	Policy     string                        `json:"policy"`
	TokensPerS float64                       `json:"tokens_per_s"`
	Bound      float64                       `json:"bound_tokens_per_s"` // min over the stages' capacity
	OfBound    float64                       `json:"of_bound"`
	Capacity   map[string]float64            `json:"capacity_tokens_per_s"` // by stage, or by stages that share devices
	Seconds    float64                       `json:"seconds"`               // of the whole run
	Steady     [2]float64                    `json:"steady"`                // from, to
	Documents  int                           `json:"documents"`
	Batches    int                           `json:"batches"`
	Windows    int                           `json:"windows"`
	Tokens     int                           `json:"tokens"`
	Redone     int                           `json:"redone"`      // batches worked on again after a crash
	Idle       map[string]map[string]float64 `json:"idle"`        // instance: share of time, in all and by cause
	StageIdle  map[string]map[string]float64 `json:"stage_idle"`  // the same over a stage's instances
	DeviceIdle float64                       `json:"device_idle"` // over all devices: nothing computes
	WholeIdle  map[string]float64            `json:"whole_idle"`  // by instance, start and end of the run included
	PeakBytes  float64                       `json:"peak_bytes"`  // most captures held at once
	SlotBytes  float64                       `json:"slot_bytes"`  // allocated for captures; 0 without slots
	Held       [][2]float64                  `json:"held"`        // bytes over time: the most since the time before
	MixError   float64                       `json:"mix_error"`   // batches, over all windows and prefixes of windows
	MixErrors  [][2]float64                  `json:"mix_errors"`  // over time
	Waits      map[string]Wait               `json:"waits"`       // by bucket
	Credits    map[string]Credit             `json:"credits"`     // by bucket
}

// Wait is how long batches of a bucket waited, in seconds.
type Wait struct {
	Batches   int     `json:"batches"`
	Root      float64 `json:"root"`  // mean, from published to taken
	Stock     float64 `json:"stock"` // mean, from captured to claimed
	StockMost float64 `json:"stock_most"`
}

// Credit is how a bucket's pull limit moved.
type Credit struct {
	Floor   int `json:"floor"`
	Ceiling int `json:"ceiling"`
	Last    int `json:"last"`
	Moves   int `json:"moves"`
}

// Result is a simulation that has ended.
type Result struct {
	Report
	w *world
}

// Run simulates a scenario under a policy over documents, which are drawn from the scenario if nil.
func Run(ctx context.Context, s *scenario.Scenario, policy string, docs plan.Lengths) (*Result, error) {
	if docs == nil {
		drawn, err := s.Draw()
		if err != nil {
			return nil, err
		}
		docs = drawn
	}
	r := rule(&penstock{})
	if policy != Old {
		var err error
		if r, err = newRule(policy); err != nil {
			return nil, err
		}
	}
	w, err := newWorld(s, docs, r)
	if err != nil {
		return nil, err
	}
	if policy == Old {
		err = runStaged(ctx, w)
	} else {
		err = w.run(ctx)
	}
	if err != nil {
		return nil, err
	}
	return &Result{w.report(policy, docs.Len()), w}, nil
}

func (w *world) report(policy string, documents int) Report {
	from, to := w.steady()
	r := Report{
		Scenario: w.s.Name, Policy: policy, Documents: documents * w.s.Epochs, Batches: len(w.batches), Windows: len(w.commits),
		Tokens: w.commits[len(w.commits)-1].tokens, Seconds: w.now, Steady: [2]float64{from.at, to.at}, Redone: w.redone,
		Idle: map[string]map[string]float64{}, StageIdle: map[string]map[string]float64{}, WholeIdle: map[string]float64{},
		SlotBytes: w.allocated, Waits: map[string]Wait{}, Credits: map[string]Credit{},
	}
	r.TokensPerS = float64(to.tokens-from.tokens) / (to.at - from.at)
	w.reportIdle(&r, from.at, to.at)
	r.Capacity, r.Bound = w.capacity(from, to)
	r.OfBound = r.TokensPerS / r.Bound
	for _, p := range w.holding {
		r.PeakBytes = max(r.PeakBytes, p.value)
	}
	r.Held = thin(w.holding, w.now)
	for _, m := range w.commits {
		r.MixError = max(r.MixError, m.error)
		r.MixErrors = append(r.MixErrors, [2]float64{round(m.at), round(m.error)})
	}
	for i := range w.buckets {
		b := &w.buckets[i]
		r.Waits[b.name] = w.waits(i)
		r.Credits[b.name] = Credit{b.limits.Floor, b.limits.Ceiling, b.limit, b.moves}
	}
	return r
}

func (w *world) waits(bucket int) (t Wait) {
	for _, b := range w.batches {
		if b.bucket == bucket {
			t.Batches++
			t.Root += b.at.taken - b.at.published
			t.Stock += b.at.claimed - b.at.captured
			t.StockMost = max(t.StockMost, b.at.claimed-b.at.captured)
		}
	}
	if t.Batches > 0 {
		t.Root /= float64(t.Batches)
		t.Stock /= float64(t.Batches)
	}
	return t
}

// reportIdle adds up what instances did in the steady time.
func (w *world) reportIdle(r *Report, from, to float64) {
	stages := map[string]int{}
	for _, i := range w.all() {
		shares := map[string]float64{}
		whole := 0.0
		for _, s := range i.spans {
			if working(i.stage, s.what) {
				whole += s.within(0, w.now)
				continue
			}
			shares[s.what] += s.within(from, to) / (to - from)
			shares["idle"] += s.within(from, to) / (to - from)
		}
		r.WholeIdle[i.name] = 1 - whole/w.now
		r.Idle[i.name] = shares
		sum := r.StageIdle[i.stage]
		if sum == nil {
			sum = map[string]float64{"idle": 0}
			r.StageIdle[i.stage] = sum
		}
		for k, v := range shares {
			sum[k] += v
		}
		stages[i.stage]++
	}
	for stage, sum := range r.StageIdle {
		for k := range sum {
			sum[k] = round(sum[k] / float64(stages[stage]))
		}
	}
	r.DeviceIdle = round(w.deviceIdle(from, to))
	for _, shares := range r.Idle {
		for k, v := range shares {
			shares[k] = round(v)
		}
	}
}

// deviceIdle is the share of the devices' time in which nothing computes on them.
func (w *world) deviceIdle(from, to float64) float64 {
	spans := map[*device][]span{}
	weight := map[*device]float64{}
	var order []*device
	for _, i := range w.all() {
		if i.dev == nil {
			continue
		}
		if weight[i.dev] == 0 {
			order = append(order, i.dev)
			weight[i.dev] = 1
		}
		if i.stage == draftStage {
			weight[i.dev] = float64(w.s.Draft.GPUs)
		}
		for _, s := range i.spans {
			if working(i.stage, s.what) && s.within(from, to) > 0 {
				spans[i.dev] = append(spans[i.dev], s)
			}
		}
	}
	var idle, all float64
	for _, d := range order {
		slices.SortFunc(spans[d], func(a, b span) int {
			if a.from < b.from {
				return -1
			}
			return 1
		})
		busy, end := 0.0, from
		for _, s := range spans[d] {
			lo, hi := max(s.from, end), min(s.to, to)
			busy += max(0, hi-lo)
			end = max(end, hi)
		}
		all += weight[d]
		idle += weight[d] * (1 - busy/(to-from))
	}
	return idle / all
}

// points is how many points a series is thinned to.
const points = 240

// thin keeps the largest value of each of a number of equal times.
func thin(series []point, end float64) (out [][2]float64) {
	at, value := 0, 0.0
	for k := 1; k <= points && end > 0; k++ {
		until := end * float64(k) / points
		most := value
		for ; at < len(series) && series[at].at <= until; at++ {
			value = series[at].value
			most = max(most, value)
		}
		out = append(out, [2]float64{round(until), math.Round(most)})
	}
	return out
}

// round keeps what a reader needs of a share or a time.
func round(x float64) float64 { return math.Round(x*1e5) / 1e5 }
