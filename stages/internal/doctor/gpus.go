package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"penstock/schema"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/nvml"
	"penstock/stages/internal/runtime"
)

// GPUs is a set of equal devices to plan for.
type GPUs struct {
	N     int
	Bytes int64 // of each
}

// ParseGPUs reads N×size, such as 8x141GiB.
func ParseGPUs(s string) (GPUs, error) {
	bad := fmt.Errorf("%q: write GPUs as in 8x141GiB", s)
	count, size, ok := strings.Cut(s, "x")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 1 || n > 1<<16 {
		return GPUs{}, bad
	}
	for unit, shift := range map[string]int{"GiB": 30, "MiB": 20} {
		if number, ok := strings.CutSuffix(size, unit); ok {
			x, err := strconv.ParseFloat(number, 64)
			if err != nil || x <= 0 || x > 1<<20 {
				return GPUs{}, bad
			}
			return GPUs{n, int64(x * float64(int64(1)<<shift))}, nil
		}
	}
	return GPUs{}, bad
}

// spare is the share of a device that the driver, its libraries and fragmentation take.
const spare = 0.05

// spread is what one of several GPUs is to hold.
type spread struct {
	bytes     int64
	processes []string
}

// over places what items keep on devices.
func over(items []Item, g schema.GPUs) []spread {
	out := make([]spread, g.N)
	targets := 0
	for _, i := range items {
		if i.Process == "target" {
			targets = i.Instances
		}
	}
	for _, i := range items {
		if !i.Device {
			continue
		}
		for k := range i.Instances {
			s := &out[g.At(i.Process, k, targets)]
			s.bytes += i.Bytes
			if name := runtime.Instance(i.Process, k+1); !slices.Contains(s.processes, name) {
				s.processes = append(s.processes, name)
			}
		}
	}
	return out
}

// Fit checks each of the devices that are planned for.
func (g GPUs) Fit(items []Item) Checks {
	var c Checks
	limit := int64(float64(g.Bytes) * (1 - spare))
	for at, s := range over(items, schema.GPUs{N: g.N}) {
		name, processes := fmt.Sprintf("gpu %d", at), strings.Join(s.processes, ", ")
		if s.bytes > limit {
			c.bad(name, "%s need %s of %s: use fewer slots, smaller batches or more devices", processes, Bytes(s.bytes), Bytes(g.Bytes))
			continue
		}
		c.good(name, "%s of %s: %s", Bytes(s.bytes), Bytes(g.Bytes), processes)
	}
	return c
}

// Need is what a run is to hold on one of its GPUs.
type Need struct {
	GPU   int // as CUDA counts them
	Bytes int64
}

// Needs is what a run is to hold on each of its GPUs; nothing on none.
func Needs(cfg schema.Config, items []Item) []Need {
	g, ok := schema.ParseGPUs(cfg.Device)
	if !ok {
		return nil
	}
	var out []Need
	for k, s := range over(items, g) {
		out = append(out, Need{g.First + k, s.bytes})
	}
	return out
}

// FitsGPU compares what a run is to hold on each of its GPUs with what that has free. On no GPU there is nothing to compare.
func FitsGPU(cfg schema.Config, items []Item) Checks { return fitsGPU(cfg, items, backend.State) }

func fitsGPU(cfg schema.Config, items []Item, read func(index int) (nvml.State, error)) Checks {
	var c Checks
	for _, n := range Needs(cfg, items) {
		s, err := read(n.GPU)
		free := int64(s.Total - s.Used)
		switch name := fmt.Sprintf("gpu %d", n.GPU); {
		case err != nil:
			c.good(name, "the plan needs %s; how much is free the driver does not tell (%v)", Bytes(n.Bytes), err)
		case n.Bytes > free:
			c.bad(name, "the plan needs %s, %s of %s are free: use fewer slots, smaller batches or fewer instances", Bytes(n.Bytes), Bytes(free), Bytes(int64(s.Total)))
		default:
			c.good(name, "the plan needs %s of %s, %s are free", Bytes(n.Bytes), Bytes(int64(s.Total)), Bytes(free))
		}
	}
	return c
}

// Purposes says what devices hold, by purpose over all processes, the most first.
func Purposes(items []Item) string {
	sums := map[string]int64{}
	var names []string
	for _, i := range items {
		if !i.Device {
			continue
		}
		name := strings.TrimLeft(i.Purpose, "0123456789 ")
		if sums[name] == 0 {
			names = append(names, name)
		}
		sums[name] += int64(i.Instances) * i.Bytes
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(sums[b], sums[a]) })
	for n, name := range names {
		names[n] = fmt.Sprintf("%s %s", name, Bytes(sums[name]))
	}
	return strings.Join(names, ", ")
}
