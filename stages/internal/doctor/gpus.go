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

// Fit places targets on the first devices and packers and drafters on those behind them, round and round, and checks
// each device.
func (g GPUs) Fit(items []Item) Checks {
	used := make([]int64, g.N)
	names := make([][]string, g.N)
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
			at := k
			if i.Process != "target" {
				at = targets + k
			}
			at %= g.N
			used[at] += i.Bytes
			if name := fmt.Sprintf("%s-%d", i.Process, k+1); len(names[at]) == 0 || names[at][len(names[at])-1] != name {
				names[at] = append(names[at], name)
			}
		}
	}
	var c Checks
	limit := int64(float64(g.Bytes) * (1 - spare))
	for at, n := range used {
		name := fmt.Sprintf("gpu %d", at)
		if n > limit {
			c.bad(name, "%s need %s of %s: use fewer slots, smaller batches or more devices", strings.Join(names[at], ", "), Bytes(n), Bytes(g.Bytes))
			continue
		}
		c.good(name, "%s of %s: %s", Bytes(n), Bytes(g.Bytes), strings.Join(names[at], ", "))
	}
	return c
}

// FitsGPU compares what a run is to hold on its GPU with what the GPU has free. On no GPU there is nothing to compare.
func FitsGPU(cfg schema.Config, items []Item) Checks {
	var c Checks
	index, ok := backend.GPU(cfg.Device)
	if !ok {
		return c
	}
	s, err := nvml.Read(index)
	need, free := Total(items, true), int64(s.Total-s.Used)
	switch name := fmt.Sprintf("gpu %d", index); {
	case err != nil:
		c.good(name, "the plan needs %s; how much is free the driver does not tell (%v)", Bytes(need), err)
	case need > free:
		c.bad(name, "the plan needs %s, %s of %s are free: use fewer slots, smaller batches or fewer instances", Bytes(need), Bytes(free), Bytes(int64(s.Total)))
	default:
		c.good(name, "the plan needs %s of %s, %s are free", Bytes(need), Bytes(int64(s.Total)), Bytes(free))
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
