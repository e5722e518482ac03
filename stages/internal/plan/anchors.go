package plan

import (
	"iter"
	"slices"

	"penstock/stages/internal/counter"
)

// Valid returns the positions of one document at which a block may be anchored: t where both t and t+1 are supervised.
func Valid(mask []uint8) []int32 { return slices.Collect(valid(mask)) }

// CountValid is the number of valid positions of one document.
func CountValid(mask []uint8) (n int) {
	for range valid(mask) {
		n++
	}
	return n
}

func valid(mask []uint8) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for t := 0; t+1 < len(mask); t++ {
			if mask[t] != 0 && mask[t+1] != 0 && !yield(int32(t)) {
				return
			}
		}
	}
}

// Anchors draws at most most of a document's valid positions, uniformly and without replacement, in rising order. The same
// seed, epoch and document key draw the same (selection sampling: Knuth, The Art of Computer Programming, 3.4.2 S).
func Anchors(seed uint64, epoch int, docKey uint64, valid []int32, most int) []int32 {
	need := min(max(most, 0), len(valid))
	drawn := make([]int32, 0, need)
	r := counter.New(seed, counter.Anchors, uint64(epoch), docKey)
	for i, t := range valid {
		left := len(valid) - i
		if need == 0 {
			break
		}
		if need == left || r.IntN(left) < need {
			drawn = append(drawn, t)
			need--
		}
	}
	return drawn
}
