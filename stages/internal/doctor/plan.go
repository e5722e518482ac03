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
	mlpRows    = 8192 // rows of the feed-forward part at a time
)

// Plan estimates the memory of a run with target t, by purpose and process. Weights and slots are exact; activations
// are an upper estimate.
func Plan(cfg schema.Config, t *hf.Target) []Item {
	gpu := strings.HasPrefix(cfg.Device, "cuda")
	element := int64(4)
	if gpu {
		element = 2
	}
	g, tokens := t.Geometry, int64(cfg.Batch.Tokens)
	h, kv, q, inter := int64(g.HiddenSize), int64(g.KVSize()), int64(g.QSize()), int64(g.IntermediateSize)
	slot := tokens * int64(len(cfg.Target.Taps)) * h * element

	vocabulary := int64(g.VocabSize) * h
	if !t.TieEmbeddings {
		vocabulary *= 2
	}
	var items []Item
	add := func(process string, n int, purpose string, bytes int64, device bool) {
		items = append(items, Item{process, n, purpose, bytes, device})
	}
	add("broker", 1, "process", brokerBase, false)
	add("batch", 1, "process", goBase, false)
	n := cfg.Target.Instances
	add("target", n, "process", goBase, false)
	add("target", n, "weights", (layers(t, slices.Max(cfg.Target.Taps)+1)+vocabulary)*element, gpu)
	add("target", n, "activations", (tokens*(4*h+2*q+2*kv)+min(tokens, mlpRows)*3*inter)*element, gpu)
	add("target", n, fmt.Sprintf("%d capture slots", cfg.Target.Slots), int64(cfg.Target.Slots)*slot, gpu)
	n = cfg.Pack.Instances
	add("pack", n, "process", goBase, false)
	add("pack", n, fmt.Sprintf("%d slots", cfg.Pack.Slots), int64(cfg.Pack.Slots)*slot, gpu)

	d := hf.NewDrafterConfig(t, cfg.Draft.Layers, cfg.Draft.BlockSize, cfg.Draft.Window, 0, cfg.Target.Taps)
	perParameter := int64(16) // weights, gradients, two moments in float32
	if gpu {
		perParameter = 18 // and weights in bf16
	}
	n = cfg.Draft.Ranks
	add("draft", n, "process", goBase, false)
	add("draft", n, "weights, gradients, moments", geometry.Parameters(d.Shapes())*perParameter, gpu)
	add("draft", n, "embedding and head", vocabulary*element, gpu)
	// A document of half the longest length is taken as usual; no more blocks than half the tokens can be supervised.
	blocks := min(tokens/2, int64(cfg.Train.Anchors)*max(1, 2*tokens/int64(cfg.Data.MaxLength)))
	rows := blocks * int64(cfg.Draft.BlockSize)
	add("draft", n, "activations", int64(cfg.Draft.Layers)*(rows*(8*h+2*q+2*kv+3*inter)+tokens*2*kv)*element, gpu)
	return items
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
