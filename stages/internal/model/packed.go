package model

import "fmt"

// positions restart at 0 in each document of a packed row.
func positions(offsets []int32) []int32 {
	pos := make([]int32, 0, offsets[len(offsets)-1])
	for i := range len(offsets) - 1 {
		for p := range offsets[i+1] - offsets[i] {
			pos = append(pos, p)
		}
	}
	return pos
}

// documents returns for each row of a packed row the first row of its document and the row after its last.
func documents(offsets []int32) (start, end []int32) {
	n := offsets[len(offsets)-1]
	start, end = make([]int32, n), make([]int32, n)
	for i := range len(offsets) - 1 {
		for r := offsets[i]; r < offsets[i+1]; r++ {
			start[r], end[r] = offsets[i], offsets[i+1]
		}
	}
	return start, end
}

func checkOffsets(offsets []int32, tokens int) error {
	if len(offsets) == 0 || offsets[0] != 0 || int(offsets[len(offsets)-1]) != tokens {
		return fmt.Errorf("document offsets %v do not span %d tokens", offsets, tokens)
	}
	for i := range len(offsets) - 1 {
		if offsets[i+1] < offsets[i] {
			return fmt.Errorf("document offsets fall from %d to %d at document %d", offsets[i], offsets[i+1], i)
		}
	}
	return nil
}

func checkIDs(ids []int32, vocab int) error {
	for i, id := range ids {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("token %d is %d, outside the vocabulary of %d", i, id, vocab)
		}
	}
	return nil
}
