// Package metrics is what the processes of a run tell Prometheus. Every metric is declared in this file.
package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"penstock/schema"
)

// Set is the metrics of one process. It is safe for concurrent use.
type Set struct {
	registry *prometheus.Registry

	handoff     prometheus.Histogram
	work        *prometheus.HistogramVec
	step        prometheus.Histogram
	turn        *prometheus.HistogramVec
	redelivered *prometheus.CounterVec
	handedBack  *prometheus.CounterVec
	rejects     *prometheus.CounterVec
	bucket      map[string]*prometheus.GaugeVec
	train       *training
}

// training is what the optimizer steps tell.
type training struct {
	window, windows, loss, entropy, acceptLength, gradNorm, lr prometheus.Gauge
	tokens, slots                                              prometheus.Gauge
	dead, skipped                                              prometheus.Gauge
	hits, accepted, evaluated                                  *prometheus.GaugeVec // by position
}

// Buckets of the histograms, in seconds: hand-offs take a fraction of a millisecond, work up to a minute.
var (
	handoffBuckets = prometheus.ExponentialBuckets(100e-6, 2, 16)
	workBuckets    = prometheus.ExponentialBuckets(1e-3, 2, 17)
)

// New returns the metrics of a process of a run. Those that only one stage knows exist in that stage alone.
func New(run, stage, process string) *Set {
	s := &Set{registry: prometheus.NewRegistry()}
	reg := prometheus.WrapRegistererWith(prometheus.Labels{"run": run, "stage": stage, "process": process}, s.registry)
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	f := factory{reg}
	switch stage {
	case "broker", "up":
		return s
	case "batch":
		s.bucket = map[string]*prometheus.GaugeVec{}
		for name, help := range bucketGauges {
			s.bucket[name] = f.gauges("penstock_bucket_"+name, help, "bucket")
		}
	case "draft":
		s.train = newTraining(f)
		s.step = f.histogram("penstock_step_seconds", "Time of an optimizer step, from the complete window to new weights.", workBuckets)
		s.turn = f.histograms("penstock_turn_seconds", "Time of one of several ranks from a window's last gradient to the next one's first batch, by part.", handoffBuckets, "part")
	}
	s.handoff = f.histogram("penstock_handoff_seconds", "Time from the publish of a hop to the start of work on it.", handoffBuckets)
	s.work = f.histograms("penstock_work_seconds", "Time of work on one batch.", workBuckets, "work")
	s.redelivered = f.counters("penstock_redeliveries_total", "Records that came again, by the edge that they came on.", "edge")
	s.handedBack = f.counters("penstock_handed_back_total", "Records that a healthy holder gave back for another to begin sooner, by their edge.", "edge")
	s.rejects = f.counters("penstock_rejects_total", "Batches whose features were bad: suspect is computed again, dead is given up.", "verdict")
	for _, v := range []string{"suspect", "dead"} {
		s.rejects.WithLabelValues(v)
	}
	for _, e := range edges[stage] {
		s.redelivered.WithLabelValues(e)
		s.handedBack.WithLabelValues(e)
	}
	return s
}

// edges that a stage takes records from.
var edges = map[string][]string{"target": {"ps.fwd", "ps.rel"}, "pack": {"ps.pack", "ps.rel"}, "draft": {"ps.train"}}

var bucketGauges = map[string]string{
	"stock":     "Roots of the bucket that are published and that no target has pulled.",
	"open":      "Roots of the bucket that were pulled and whose window has not committed.",
	"credit":    "The most roots of the bucket that may be open.",
	"floor":     "The least that the credit may be.",
	"ceiling":   "The most that the credit may be.",
	"published": "Roots of the bucket published in this generation.",
	"remaining": "Roots of the bucket still to be published.",
}

func newTraining(f factory) *training {
	return &training{
		window:       f.gauge("penstock_window", "Optimizer steps committed."),
		windows:      f.gauge("penstock_windows", "Optimizer steps of the whole run."),
		loss:         f.gauge("penstock_loss", "Loss of the last window that has one."),
		entropy:      f.gauge("penstock_cross_entropy", "Decay-weighted cross-entropy of the last window that has a loss, whatever the loss."),
		acceptLength: f.gauge("penstock_accept_length", "Tokens per verification at the last evaluation, 0 before it."),
		gradNorm:     f.gauge("penstock_gradient_norm", "Norm before clipping of the last gradient that was finite."),
		lr:           f.gauge("penstock_learning_rate", "Learning rate of the last window."),
		tokens:       f.gauge("penstock_trained_tokens", "Tokens of the committed windows."),
		slots:        f.gauge("penstock_trained_slots", "Drafted positions of the committed windows."),
		dead:         f.gauge("penstock_dead_batches", "Batches given up in the committed windows."),
		skipped:      f.gauge("penstock_skipped_steps", "Steps left out because their gradient was not finite."),
		hits:         f.gauges("penstock_hits", "Share of right predictions in the last window, by position in the block.", "position"),
		accepted: f.gauges("penstock_acceptance",
			"Share of the last window's predictions that are right with all before them in their block, by position in the block.", "position"),
		evaluated: f.gauges("penstock_eval_acceptance",
			"Share of rounds in which this position and all before it were accepted at the last evaluation, by position in the block.", "position"),
	}
}

// Handoff counts the time that a hop took to be worked on, in seconds.
func (s *Set) Handoff(seconds float64) { s.handoff.Observe(seconds) }

// Work counts the time of work on a batch, in seconds.
func (s *Set) Work(what string, seconds float64) { s.work.WithLabelValues(what).Observe(seconds) }

// Step counts the time of an optimizer step, in seconds.
func (s *Set) Step(seconds float64) { s.step.Observe(seconds) }

// Turn counts the time of a part of the way from one window to the next, in seconds.
func (s *Set) Turn(part string, seconds float64) { s.turn.WithLabelValues(part).Observe(seconds) }

// HandedBack counts a record of an edge that a healthy holder gave back for another to begin sooner: it comes again.
func (s *Set) HandedBack(edge string) { s.handedBack.WithLabelValues(edge).Inc() }

// Redelivered counts a record that came again on an edge.
func (s *Set) Redelivered(edge string) { s.redelivered.WithLabelValues(edge).Inc() }

// Rejected counts a verdict on a batch: suspect or dead.
func (s *Set) Rejected(verdict string) { s.rejects.WithLabelValues(verdict).Inc() }

// Bucket sets a bucket's gauges. Open and stock are what the broker counts.
func (s *Set) Bucket(b schema.BucketState, open int, stock uint64) {
	for name, v := range map[string]float64{
		"stock": float64(stock), "open": float64(open), "credit": float64(b.Credit), "floor": float64(b.Floor), "ceiling": float64(b.Ceiling),
		"published": float64(b.Published), "remaining": float64(b.Remaining),
	} {
		s.bucket[name].WithLabelValues(b.Bucket).Set(v)
	}
}

// Progress sets what the last committed window says.
func (s *Set) Progress(p schema.Progress) {
	t := s.train
	t.window.Set(float64(p.Windows))
	t.windows.Set(float64(p.Total))
	t.loss.Set(p.Loss)
	t.entropy.Set(p.CrossEntropy)
	t.lr.Set(p.LR)
	t.gradNorm.Set(p.GradNorm)
	t.acceptLength.Set(p.AcceptLength)
	t.tokens.Set(float64(p.Tokens))
	t.slots.Set(float64(p.Slots))
	t.dead.Set(float64(p.Dead))
	t.skipped.Set(float64(p.Skipped))
	byPosition(t.hits, p.Hits)
}

// Accepted sets the last committed window's acceptance at positions 1, 2, ... of a block.
func (s *Set) Accepted(shares []float32) { byPosition(s.train.accepted, shares) }

// Evaluated sets the last evaluation's acceptance at positions 1, 2, ... of a block.
func (s *Set) Evaluated(shares []float64) { byPosition(s.train.evaluated, shares) }

func byPosition[F float32 | float64](g *prometheus.GaugeVec, shares []F) {
	for i, x := range shares {
		g.WithLabelValues(strconv.Itoa(i + 1)).Set(float64(x))
	}
}

// factory makes metrics that are registered.
type factory struct{ reg prometheus.Registerer }

func (f factory) gauge(name, help string) prometheus.Gauge {
	return register(f, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(f, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return register(f, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return register(f, prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}))
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return register(f, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels))
}

func register[C prometheus.Collector](f factory, c C) C {
	f.reg.MustRegister(c)
	return c
}
