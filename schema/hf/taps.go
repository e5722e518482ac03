package hf

import (
	"fmt"
	"math"
)

// BuildTapIDs spreads n taps over a target's layers: layers/2 for one, else from layer 1 to layers-3 in even steps, rounded
// half to even. (Rule: z-lab/dflash, build_target_layer_ids.) Fewer layers than the rule can serve are an error.
func BuildTapIDs(layers, n int) ([]int, error) {
	if n < 1 || layers < 1 {
		return nil, fmt.Errorf("%d taps of %d layers: want at least one of each", n, layers)
	}
	if n == 1 {
		return []int{layers / 2}, nil
	}
	first, last := 1, layers-3
	if last-first < n-1 {
		return nil, fmt.Errorf("%d taps need at least %d layers, the target has %d", n, n+3, layers)
	}
	ids := make([]int, n)
	for i := range ids {
		ids[i] = int(math.RoundToEven(float64(first) + float64(i*(last-first))/float64(n-1)))
	}
	return ids, nil
}
