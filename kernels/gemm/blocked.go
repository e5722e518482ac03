package gemm

import "penstock/kernels/internal/team"

const (
	// depth is how much of k a packed block holds: a panel of b and one of a stay in the first-level cache.
	depth = 256
	// A task is at most tileRows×tileCols of c: its block of b, depth×tileCols, stays in the second-level cache,
	// and packing it is repaid by the rows that use it. Both are multiples of every kernel's tile.
	tileRows, tileCols = 384, 256
	// minTask is the number of multiplications below which a task is not split further.
	minTask = 1 << 18
	// narrow is the largest stride of b whose blocks, read in place, do not crowd out each other in the caches.
	narrow = 256
)

// blocked computes a product tile by tile of c. Tasks share nothing: each packs what it reads.
type blocked struct {
	kernel
	free team.Free[scratch]
}

// scratch is what one task packs into.
type scratch struct {
	a, b, c []float32
	call    call
	run     func(i int) // call.task, bound once
}

// call is a product in progress.
type call struct {
	on         *blocked
	c, a, b    Matrix
	ta, tb     bool
	add        bool
	k          int
	rows, cols int // of a task
	wide       int // tasks side by side
}

func (p *blocked) mul(t *team.Team, c, a, b Matrix, ta, tb, add bool) {
	s := p.get()
	k := a.Cols
	if ta {
		k = a.Rows
	}
	s.call = call{on: p, c: c, a: a, b: b, ta: ta, tb: tb, add: add, k: k}
	if p.isFew(c, tb) {
		s.call.rows, s.call.cols = c.Rows, split(c.Cols, fewCols, t.Threads(), c.Rows*k)
	} else {
		s.call.grid(t.Threads())
	}
	s.call.wide = ceil(c.Cols, s.call.cols)
	t.Run(s.call.wide*ceil(c.Rows, s.call.rows), s.run)
	s.call = call{}
	p.free.Put(s)
}

// isFew tells whether the path for few rows takes the product.
func (p *blocked) isFew(c Matrix, tb bool) bool {
	return tb && p.dots != nil && c.Rows <= fewRows && c.Cols >= fewCols
}

// grid chooses the tasks' size: no larger than the constants, and, while they stay worth the hand-over, as many
// as there are threads.
func (c *call) grid(threads int) {
	mr, nr := c.on.mr, c.on.nr
	c.rows = even(c.c.Rows, tileRows, mr)
	c.cols = even(c.c.Cols, tileCols, nr)
	for ceil(c.c.Rows, c.rows)*ceil(c.c.Cols, c.cols) < threads && c.rows*c.cols*c.k >= 2*minTask {
		switch {
		case (c.rows >= c.cols || c.ta) && c.rows > 4*mr: // to cut columns would pack a transposed a once more
			c.rows = even(c.c.Rows, c.rows/2, mr)
		case c.cols > nr:
			c.cols = even(c.c.Cols, c.cols/2, nr)
		default:
			return
		}
	}
}

// even returns the size of the parts when n is cut into as few equal parts of at most limit as possible,
// rounded up to a multiple of unit.
func even(n, limit, unit int) int {
	part := ceil(n, ceil(n, max(limit, unit)))
	return ceil(part, unit) * unit
}

// split returns the size of parts of n, multiples of unit, for at most as many parts as threads of at least minTask
// multiplications, one element of n being work of them.
func split(n, unit, threads, work int) int {
	parts := min(threads, max(1, n*work/minTask))
	return ceil(ceil(n, parts), unit) * unit
}

func ceil(a, b int) int { return (a + b - 1) / b }

// task computes one tile of c.
func (c *call) task(i int) {
	s := c.on.get()
	i0, j0 := i/c.wide*c.rows, i%c.wide*c.cols
	i1, j1 := min(i0+c.rows, c.c.Rows), min(j0+c.cols, c.c.Cols)
	if c.on.isFew(c.c, c.tb) {
		c.fewRows(s, j0, j1)
	} else {
		for p := 0; p < c.k; p += depth {
			c.block(s, i0, i1, j0, j1, p, min(depth, c.k-p))
		}
	}
	c.on.free.Put(s)
}

// block adds the products of columns [p, p+k) of op(a) to rows [i0, i1) and columns [j0, j1) of c.
func (c *call) block(s *scratch, i0, i1, j0, j1, p, k int) {
	kn := &c.on.kernel
	// Whole panels of a narrow b are read where they lie.
	packed := j0
	if !c.tb && c.b.Stride <= narrow {
		packed = j1 - (j1-j0)%kn.nr
	}
	kn.packB(s.b, c.b, c.tb, p, k, packed, j1-packed)
	load := c.add || p > 0
	for i := i0; i < i1; i += kn.mr {
		rows := min(kn.mr, i1-i)
		a, rs, cs := &s.a[0], 1, kn.mr
		if rows == kn.mr && !c.ta {
			a, rs, cs = &c.a.Data[i*c.a.Stride+p], c.a.Stride, 1 // rows are read where they lie
		} else {
			kn.packA(s.a, c.a, c.ta, i, p, k)
		}
		for j := j0; j < j1; j += kn.nr {
			var b *float32
			bs := kn.nr
			if j < packed {
				b, bs = &c.b.Data[p*c.b.Stride+j], c.b.Stride
			} else {
				b = &s.b[(j-packed)*k]
			}
			if cols := min(kn.nr, j1-j); rows == kn.mr && cols == kn.nr {
				kn.tile(k, a, rs, cs, b, bs, &c.c.Data[i*c.c.Stride+j], c.c.Stride, load)
			} else {
				c.edge(s, k, a, rs, cs, b, bs, i, rows, j, cols, load)
			}
		}
	}
}

// edge computes a tile that reaches past the end of c, in scratch memory.
func (c *call) edge(s *scratch, k int, a *float32, rs, cs int, b *float32, bs, i, rows, j, cols int, load bool) {
	nr := c.on.nr
	if load {
		for r := range rows {
			copy(s.c[r*nr:], c.c.Data[(i+r)*c.c.Stride+j:][:cols])
		}
	}
	c.on.tile(k, a, rs, cs, b, bs, &s.c[0], nr, load)
	for r := range rows {
		copy(c.c.Data[(i+r)*c.c.Stride+j:][:cols], s.c[r*nr:])
	}
}

// get returns scratch memory of the sizes that any task needs.
func (p *blocked) get() *scratch {
	s := p.free.Get()
	if s == nil {
		s = &scratch{
			a: make([]float32, depth*p.mr),
			b: make([]float32, depth*tileCols),
			c: make([]float32, p.mr*p.nr),
		}
		s.run = s.call.task
	}
	return s
}
