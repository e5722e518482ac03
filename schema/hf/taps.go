package hf

import (
	"errors"
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

// CheckTaps returns every reason why a drafter of these taps cannot be trained on a target of so many layers, and served.
// The last layer is refused: serving systems capture what enters a layer, so the output of the last one is out of reach.
func CheckTaps(taps []int, layers int) error {
	var errs []error
	if len(taps) == 0 {
		errs = append(errs, errors.New("no taps"))
	}
	for i, t := range taps {
		switch {
		case t < 0 || t >= layers:
			errs = append(errs, fmt.Errorf("tap %d is not a layer of the target, which has 0..%d", t, layers-1))
		case t == layers-1:
			errs = append(errs, fmt.Errorf("tap %d is the target's last layer, which serving systems cannot capture: use at most %d", t, layers-2))
		}
		if i > 0 && t <= taps[i-1] {
			errs = append(errs, fmt.Errorf("taps %v are not ascending", taps))
		}
	}
	return errors.Join(errs...)
}
