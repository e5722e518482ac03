package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"penstock/schema"
	"penstock/stages/internal/account"
)

// state turns what a process says of itself into metrics whenever it is asked.
type state struct{ read func() schema.StageState }

var (
	stateBatches = prometheus.NewDesc("penstock_batches_total", "Batches that the process is done with.", nil, nil)
	stateTokens  = prometheus.NewDesc("penstock_tokens_total", "Tokens of the batches that the process is done with.", nil, nil)
	stateBusy    = prometheus.NewDesc("penstock_busy_seconds_total", "Wall time spent working, by kind of work.", []string{"work"}, nil)
	stateIdle    = prometheus.NewDesc("penstock_idle_seconds_total", "Wall time spent waiting, by its cause.", []string{"cause"}, nil)
	stateSlots   = prometheus.NewDesc("penstock_slots", "Slots of the process's pool.", nil, nil)
	stateUsed    = prometheus.NewDesc("penstock_slots_used", "Slots of the process's pool that hold a batch.", nil, nil)
	stateGen     = prometheus.NewDesc("penstock_generation", "Generation that the process works in.", nil, nil)
)

// Watch adds what the process says of itself.
func (s *Set) Watch(run, stage, process string, read func() schema.StageState) {
	prometheus.WrapRegistererWith(prometheus.Labels{"run": run, "stage": stage, "process": process}, s.registry).MustRegister(&state{read})
}

func (s *state) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{stateBatches, stateTokens, stateBusy, stateIdle, stateSlots, stateUsed, stateGen} {
		out <- d
	}
}

func (s *state) Collect(out chan<- prometheus.Metric) {
	r := s.read()
	emit := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	emit(stateBatches, prometheus.CounterValue, float64(r.Batches))
	emit(stateTokens, prometheus.CounterValue, float64(r.Tokens))
	emit(stateGen, prometheus.GaugeValue, float64(r.Gen))
	if r.Slots > 0 {
		emit(stateSlots, prometheus.GaugeValue, float64(r.Slots))
		emit(stateUsed, prometheus.GaugeValue, float64(r.SlotsUsed))
	}
	for activity, seconds := range r.Seconds {
		d := stateIdle
		if account.Working(activity) {
			d = stateBusy
		}
		emit(d, prometheus.CounterValue, seconds, activity)
	}
}
