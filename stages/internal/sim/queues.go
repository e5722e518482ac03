package sim

import (
	"cmp"
	"slices"
)

// queues hold batches in one or more lines, each in order.
type queues struct {
	lines [][]*batch
	order func(*batch) int
	n     int
}

// push puts a batch in its place in line i.
func (q *queues) push(i int, b *batch) {
	for len(q.lines) <= i {
		q.lines = append(q.lines, nil)
	}
	at, _ := slices.BinarySearchFunc(q.lines[i], b, func(x, y *batch) int { return cmp.Compare(q.order(x), q.order(y)) })
	q.lines[i] = slices.Insert(q.lines[i], at, b)
	b.queue = i
	q.n++
}

// remove takes a batch out of the line that holds it.
func (q *queues) remove(b *batch) {
	line := q.lines[b.queue]
	if at := slices.Index(line, b); at >= 0 {
		q.lines[b.queue] = slices.Delete(line, at, at+1)
		q.n--
	}
}

func planOrder(b *batch) int    { return b.Index }
func arrivalOrder(b *batch) int { return b.arrival }
