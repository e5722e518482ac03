package plan

import "sort"

// deal spreads counts[b] batches of each bucket b over windows of size batches, the last of which takes what is left. Row
// w of the result holds, by bucket, the batches in windows before w; the last row is counts.
//
// With share = counts[b]/Σcounts, every window is off size·share, and every prefix of w windows off w·size·share, by less
// than one batch. Each window takes ⌊size·share⌋ of each bucket. The fractions that remain are the weights of unit tasks on
// as many processors as the fractions sum to, time counted in windows: proportionate-fair scheduling, which keeps each
// task less than one unit off its share at all times (Baruah, Cohen, Plaxton, Varvel: Proportionate Progress, Algorithmica
// 1996). Tasks are chosen by PD² (Anderson, Srinivasan: Mixed Pfair/ERfair Scheduling of Asynchronous Periodic Tasks, 2001).
func deal(counts []int, size int) [][]int {
	total := sum(counts)
	tasks := make([]*task, len(counts))
	whole := make([]int, len(counts))
	processors := size
	for b, n := range counts {
		whole[b] = size * n / total
		processors -= whole[b]
		tasks[b] = newTask(b, size*n%total, total)
	}
	full := total / size
	rows := make([][]int, 0, full+2)
	row := make([]int, len(counts))
	rows = append(rows, row)
	byPriority := append([]*task(nil), tasks...)
	for w := range full {
		next := make([]int, len(counts))
		for b := range next {
			next[b] = row[b] + whole[b]
		}
		sort.SliceStable(byPriority, func(i, j int) bool { return byPriority[i].before(byPriority[j], w) })
		for _, t := range byPriority[:processors] {
			next[t.bucket]++
			t.advance()
		}
		row = next
		rows = append(rows, row)
	}
	if total%size != 0 {
		rows = append(rows, append([]int(nil), counts...))
	}
	return rows
}

// task is one bucket's fraction weight/of of a batch a window. Its i-th unit may run in windows release..deadline-1.
type task struct {
	bucket, weight, of int

	i        int  // the unit to run next, counted from 1
	release  int  // ⌊(i-1)·of/weight⌋
	deadline int  // ⌈i·of/weight⌉
	overlaps bool // the next unit's windows begin before this one's end
	group    int  // the time up to which running late would press on the units that follow; 0 for weights below one half
}

func newTask(bucket, weight, of int) *task {
	t := &task{bucket: bucket, weight: weight, of: of}
	t.advance()
	return t
}

// advance moves to the next unit.
func (t *task) advance() {
	t.i++
	if t.weight == 0 {
		return
	}
	t.release = (t.i - 1) * t.of / t.weight
	t.deadline = ceil(t.i*t.of, t.weight)
	t.overlaps = t.i*t.of%t.weight != 0
	if 2*t.weight >= t.of {
		rest := t.of - t.weight
		t.group = ceil(ceil(t.deadline*rest, t.of)*t.of, rest)
	}
}

// before tells whether t runs before u in window w: what may run, by earlier deadline, then overlap, then later group.
func (t *task) before(u *task, w int) bool {
	if a, b := t.eligible(w), u.eligible(w); !a || !b {
		return a && !b
	}
	if t.deadline != u.deadline {
		return t.deadline < u.deadline
	}
	if t.overlaps != u.overlaps {
		return t.overlaps
	}
	if t.group != u.group && t.overlaps {
		return t.group > u.group
	}
	return t.bucket < u.bucket
}

func (t *task) eligible(w int) bool { return t.weight > 0 && t.release <= w }

func ceil(a, b int) int { return (a + b - 1) / b }
