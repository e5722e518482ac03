package metrics

import "github.com/prometheus/client_golang/prometheus"

var streamMessages = prometheus.NewDesc("penstock_stream_messages", "Messages that a stream of the broker holds.", []string{"stream"}, nil)

// streams asks the broker whenever it is asked.
type streams struct{ read func() map[string]uint64 }

// WatchStreams adds how many messages each stream holds.
func (s *Set) WatchStreams(run string, read func() map[string]uint64) {
	prometheus.WrapRegistererWith(prometheus.Labels{"run": run, "stage": "broker", "process": "broker"}, s.registry).MustRegister(&streams{read})
}

func (s *streams) Describe(out chan<- *prometheus.Desc) { out <- streamMessages }

func (s *streams) Collect(out chan<- prometheus.Metric) {
	for name, n := range s.read() {
		out <- prometheus.MustNewConstMetric(streamMessages, prometheus.GaugeValue, float64(n), name)
	}
}
