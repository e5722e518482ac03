package tokenizer

// minHeap is a binary heap of packed keys, the smallest first.
type minHeap []uint64

func (h *minHeap) push(key uint64) {
	q := append(*h, key)
	i := len(q) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if q[parent] <= key {
			break
		}
		q[i] = q[parent]
		i = parent
	}
	q[i] = key
	*h = q
}

// pop takes the smallest key off a heap that is not empty.
func (h *minHeap) pop() uint64 {
	q := *h
	top, key := q[0], q[len(q)-1]
	q = q[:len(q)-1]
	*h = q
	if len(q) == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(q) {
			break
		}
		if child+1 < len(q) && q[child+1] < q[child] {
			child++
		}
		if key <= q[child] {
			break
		}
		q[i] = q[child]
		i = child
	}
	q[i] = key
	return top
}
