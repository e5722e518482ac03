package metrics

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	gpuBusy  = prometheus.NewDesc("penstock_gpu_utilization_ratio", "Share of the last moments in which the GPU ran a kernel, of any process.", []string{"gpu"}, nil)
	gpuUsed  = prometheus.NewDesc("penstock_gpu_memory_used_bytes", "Memory of the GPU in use, by any process.", []string{"gpu"}, nil)
	gpuTotal = prometheus.NewDesc("penstock_gpu_memory_total_bytes", "Memory of the GPU.", []string{"gpu"}, nil)
)

// GPU is a GPU at one moment.
type GPU struct {
	Busy        float64 // 0 to 1
	Used, Total uint64  // bytes of memory
}

// gpu asks the driver whenever it is asked itself.
type gpu struct {
	index int
	read  func(index int) (GPU, error)
}

// WatchGPU adds the GPU of a device such as cuda:2. A process on another device has none; one whose driver does not
// answer shows none.
func (s *Set) WatchGPU(run, stage, process, device string, read func(index int) (GPU, error)) {
	index, ok := gpuIndex(device)
	if !ok {
		return
	}
	g := &gpu{index, read}
	prometheus.WrapRegistererWith(prometheus.Labels{"run": run, "stage": stage, "process": process}, s.registry).MustRegister(g)
}

// gpuIndex reads the number out of cuda or cuda:N, whatever type follows.
func gpuIndex(device string) (int, bool) {
	device, _, _ = strings.Cut(device, "/")
	rest, ok := strings.CutPrefix(device, "cuda")
	if !ok || rest == "" {
		return 0, ok
	}
	n, err := strconv.Atoi(strings.TrimPrefix(rest, ":"))
	return n, err == nil && rest[0] == ':' && n >= 0
}

func (g *gpu) Describe(out chan<- *prometheus.Desc) { out <- gpuBusy; out <- gpuUsed; out <- gpuTotal }

func (g *gpu) Collect(out chan<- prometheus.Metric) {
	s, err := g.read(g.index)
	if err != nil {
		return
	}
	name := strconv.Itoa(g.index)
	out <- prometheus.MustNewConstMetric(gpuBusy, prometheus.GaugeValue, s.Busy, name)
	out <- prometheus.MustNewConstMetric(gpuUsed, prometheus.GaugeValue, float64(s.Used), name)
	out <- prometheus.MustNewConstMetric(gpuTotal, prometheus.GaugeValue, float64(s.Total), name)
}
