package schema

import (
	"strconv"
	"strings"
)

// GPUs are the GPUs of one host that a device name is of, numbered as the driver numbers them.
type GPUs struct {
	First, N int
	suffix   string // names the type in which they compute, with a slash; empty: bfloat16
}

const exactly = "/float32"

// ParseGPUs reads cuda, which is cuda:0, cuda:K, or cuda:A-B for those from A to B, and /float32 behind it; ok is false
// for any other name.
func ParseGPUs(device string) (g GPUs, ok bool) {
	name, exact := strings.CutSuffix(device, exactly)
	if exact {
		g.suffix = exactly
	}
	rest, ok := strings.CutPrefix(name, "cuda")
	if !ok || rest == "" {
		g.N = 1
		return g, ok
	}
	numbers, ok := strings.CutPrefix(rest, ":")
	first, last, ranged := strings.Cut(numbers, "-")
	a, err := strconv.ParseUint(first, 10, 16)
	if !ok || err != nil {
		return GPUs{}, false
	}
	g.First, g.N = int(a), 1
	if ranged {
		b, err := strconv.ParseUint(last, 10, 16)
		if err != nil || b <= a {
			return GPUs{}, false
		}
		g.N = int(b-a) + 1
	}
	return g, true
}

// Exact reports whether they compute in float32.
func (g GPUs) Exact() bool { return g.suffix != "" }

// Name is the device name of the kth of them, counted from 0.
func (g GPUs) Name(k int) string { return "cuda:" + strconv.Itoa(g.First+k) + g.suffix }

// Sized is the device name of n GPUs from the first on, which compute alike.
func (g GPUs) Sized(n int) string {
	if n == 1 {
		return g.Name(0)
	}
	return "cuda:" + strconv.Itoa(g.First) + "-" + strconv.Itoa(g.First+n-1) + g.suffix
}

// At says which of the GPUs, counted from 0, the kth process of a stage is placed on, counted from 0 too: targets on the
// first, packers and drafters on those behind them, round and round. So drafter k is where packer k is. It states the rule
// for whoever starts processes and for whoever plans their memory.
func (g GPUs) At(stage string, k, targets int) int {
	if stage != "target" {
		k += targets
	}
	return k % g.N
}
