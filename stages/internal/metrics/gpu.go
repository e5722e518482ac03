package metrics

import (
	"math"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"penstock/schema"
	"penstock/stages/internal/nvml"
)

var (
	gpuBusy  = prometheus.NewDesc("penstock_gpu_utilization_ratio", "Share of the last moments in which the GPU ran a kernel, of any process.", []string{"gpu"}, nil)
	gpuUsed  = prometheus.NewDesc("penstock_gpu_memory_used_bytes", "Memory of the GPU in use, by any process.", []string{"gpu"}, nil)
	gpuTotal = prometheus.NewDesc("penstock_gpu_memory_total_bytes", "Memory of the GPU.", []string{"gpu"}, nil)
)

// gpu asks the driver whenever it is asked itself.
type gpu struct {
	ordinal int
	read    func(ordinal int) (nvml.State, error)
}

// WatchGPU adds the GPU of a device such as cuda:2. A process on another device has none; one whose driver does not
// answer shows none.
func (s *Set) WatchGPU(run, stage, process, device string, read func(ordinal int) (nvml.State, error)) {
	one, ok := schema.ParseGPUs(device)
	if !ok || one.N > 1 {
		return
	}
	g := &gpu{one.First, read}
	prometheus.WrapRegistererWith(prometheus.Labels{"run": run, "stage": stage, "process": process}, s.registry).MustRegister(g)
}

func (g *gpu) Describe(out chan<- *prometheus.Desc) { out <- gpuBusy; out <- gpuUsed; out <- gpuTotal }

func (g *gpu) Collect(out chan<- prometheus.Metric) {
	s, err := g.read(g.ordinal)
	if err != nil {
		return
	}
	name := strconv.Itoa(g.ordinal)
	if !math.IsNaN(s.Busy) {
		out <- prometheus.MustNewConstMetric(gpuBusy, prometheus.GaugeValue, s.Busy, name)
	}
	out <- prometheus.MustNewConstMetric(gpuUsed, prometheus.GaugeValue, float64(s.Used), name)
	out <- prometheus.MustNewConstMetric(gpuTotal, prometheus.GaugeValue, float64(s.Total), name)
}
