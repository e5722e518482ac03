package doctor

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	"penstock/schema"
	"penstock/schema/hf"
	"penstock/stages/internal/geometry"
	"penstock/stages/internal/model"
)

// Item is memory that one kind of process needs for one purpose.
type Item struct {
	Process   string `json:"process"`
	Instances int    `json:"instances"`
	Purpose   string `json:"purpose"`
	Bytes     int64  `json:"bytes"`  // of one instance
	Device    bool   `json:"device"` // on its GPU; else on the host
}

const (
	goBase     = 32 << 20 // a Go process with its connection, before it does anything
	brokerBase = 64 << 20
	driver     = 522 << 20 // a process's context, stream and kernels on a GPU: H200, CUDA 13.0
	products   = 402 << 20 // cuBLASLt behind its first product, 32 MiB for partial sums among it
)

// Plan states the memory of a run with target t, by purpose and process: what the same code takes on a device without
// memory, for the largest of the batches whose shapes are given. Without shapes, as long as no data is prepared, it is for a
// full batch of documents of half the longest length: shorter documents may take more, longer ones take less.
// Memory that several processes map counts once, for the one that made it.
func Plan(cfg schema.Config, t *hf.Target, shapes []model.Shape) []Item {
	p := newPlanner(cfg, t)
	if p.shapes = shapes; len(shapes) == 0 {
		p.shapes = []model.Shape{p.typical()}
	}
	p.add("broker", 1, "process", brokerBase, false)
	p.add("batch", 1, "process", goBase, false)
	p.target()
	p.add("pack", cfg.Pack.Instances, "process", goBase, false)
	p.context("pack", cfg.Pack.Instances, 0)
	p.add("pack", cfg.Pack.Instances, fmt.Sprintf("%d slots", cfg.Pack.Slots), int64(cfg.Pack.Slots)*p.slot, p.gpu)
	p.landing("pack", cfg.Pack.Instances)
	if cfg.Pack.Noise > 0 {
		p.add("pack", cfg.Pack.Instances, "noise", p.slot, p.gpu)
		p.add("pack", cfg.Pack.Instances, "noise as it is drawn", p.slot*4/p.element, false)
	}
	p.draft()
	return p.items
}

// planner adds up what one configuration needs.
type planner struct {
	cfg        schema.Config
	t          *hf.Target
	gpu        bool
	several    bool  // GPUs
	element    int64 // bytes of a weight or an activation
	slot       int64 // bytes of a batch of captures
	vocabulary int64 // elements of embedding and head
	shapes     []model.Shape
	items      []Item
}

func newPlanner(cfg schema.Config, t *hf.Target) *planner {
	g, ok := schema.ParseGPUs(cfg.Device)
	p := &planner{cfg: cfg, t: t, gpu: ok, several: g.N > 1, element: 4}
	if ok && !g.Exact() {
		p.element = 2
	}
	h := int64(t.HiddenSize)
	p.slot = int64(cfg.Batch.Tokens) * int64(len(cfg.Target.Taps)) * h * p.element
	p.vocabulary = int64(t.VocabSize) * h
	if !t.TieEmbeddings {
		p.vocabulary *= 2
	}
	return p
}

func (p *planner) add(process string, n int, purpose string, bytes int64, device bool) {
	p.items = append(p.items, Item{process, n, purpose, bytes, device})
}

// context adds what a process holds on a GPU before its first tensor, and for matrix products with the first of them.
func (p *planner) context(process string, n int, more int64) {
	if p.gpu {
		p.add(process, n, "driver and libraries", driver+more, true)
	}
}

// landing adds the room into which a process on one of several GPUs copies a slot of another.
func (p *planner) landing(process string, n int) {
	if p.several {
		p.add(process, n, "copy from another GPU", p.slot, true)
	}
}

func (p *planner) target() {
	n := p.cfg.Target.Instances
	p.add("target", n, "process", goBase, false)
	p.context("target", n, products)
	p.add("target", n, "weights", (layers(p.t, slices.Max(p.cfg.Target.Taps)+1)+p.vocabulary)*p.element, p.gpu)
	p.add("target", n, fmt.Sprintf("%d capture slots", p.cfg.Target.Slots), int64(p.cfg.Target.Slots)*p.slot, p.gpu)
	var most int64
	for _, s := range p.shapes {
		bytes, err := model.ForwardNeed(p.half(), p.t, p.cfg.Target.Taps, s)
		if err != nil {
			return // what is wrong with the configuration the checks of it say
		}
		most = max(most, bytes)
	}
	p.add("target", n, "activations", most, p.gpu)
}

// layers counts the parameters of the first n layers.
func layers(t *hf.Target, n int) int64 {
	var shapes []hf.Shape
	for _, s := range t.Shapes() {
		for i := range n {
			if strings.HasPrefix(s.Name, "model."+hf.LayerName(i, "")) {
				shapes = append(shapes, s)
				break
			}
		}
	}
	return geometry.Parameters(shapes)
}

// Total sums items over all instances on the host, or on all devices.
func Total(items []Item, device bool) int64 {
	var n int64
	for _, i := range items {
		if i.Device == device {
			n += int64(i.Instances) * i.Bytes
		}
	}
	return n
}

// Available is the host memory that can be had without swapping.
func Available() (int64, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read the host's memory: %w", err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var kib int64
		if n, _ := fmt.Sscanf(s.Text(), "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("read the host's memory: /proc/meminfo names no MemAvailable")
}

// Bytes writes a size with a binary unit.
func Bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	x := float64(n)
	for len(units) > 1 && x >= 1024 {
		x /= 1024
		units = units[1:]
	}
	if x == float64(int64(x)) || x >= 100 {
		return fmt.Sprintf("%.0f %s", x, units[0])
	}
	return fmt.Sprintf("%.1f %s", x, units[0])
}

// Fits compares what the host must hold with what it has free.
func Fits(host int64) Checks {
	var c Checks
	switch free, err := Available(); {
	case err != nil:
		c.bad("memory", "%v", err)
	case host > free:
		c.bad("memory", "the plan needs %s on the host, %s are free: use fewer instances, fewer slots or smaller batches", Bytes(host), Bytes(free))
	default:
		c.good("memory", "the plan needs %s of the host's free %s", Bytes(host), Bytes(free))
	}
	return c
}
