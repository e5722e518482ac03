package kernels

// arenaChunk is the smallest allocation of an arena, in float32; arenaAlign keeps every tensor on a 256-byte line.
const (
	arenaChunk = 1 << 20
	arenaAlign = 64
)

// Arena hands out the scratch tensors of a step from one large allocation. A step that needs more takes the rest beside it,
// and the next one has a single allocation of that step's size in their place. So an arena holds what its largest step
// needed, and once that has been seen, no step allocates. Contents are undefined. Like its Device it serves one goroutine.
type Arena struct {
	dev    Device
	chunks []Tensor // one column each
	at     Mark
	most   int // float32 handed out at once, at most
}

// Mark is a point of an arena to return to.
type Mark struct{ chunk, used, taken int }

// NewArena returns an empty arena over dev.
func NewArena(dev Device) *Arena { return &Arena{dev: dev} }

// Get returns a rows×cols tensor of Float32 that is valid until the arena is reset, or released to an earlier mark.
func (a *Arena) Get(rows, cols int) Tensor { return a.get(rows*cols).Reshape(rows, cols) }

// Half is Get for the device's half type.
func (a *Arena) Half(rows, cols int) Tensor {
	half, n := a.dev.Half(), rows*cols
	if half == Float32 {
		return a.Get(rows, cols)
	}
	t := a.get((n*half.Bytes() + Float32.Bytes() - 1) / Float32.Bytes())
	t.Type, t.Rows, t.Cols = half, rows, cols
	return t
}

// get returns n float32 in one column.
func (a *Arena) get(n int) Tensor {
	take := (n + arenaAlign - 1) / arenaAlign * arenaAlign
	for a.at.chunk < len(a.chunks) && a.at.used+take > a.chunks[a.at.chunk].Rows {
		a.at = Mark{chunk: a.at.chunk + 1, taken: a.at.taken}
	}
	if a.at.chunk == len(a.chunks) {
		a.chunks = append(a.chunks, a.dev.Alloc(max(take, arenaChunk), 1))
	}
	t := a.chunks[a.at.chunk].RowRange(a.at.used, a.at.used+n)
	a.at.used, a.at.taken = a.at.used+take, a.at.taken+take
	a.most = max(a.most, a.at.taken)
	return t
}

// ZeroHalf is Half with every element set to 0.
func (a *Arena) ZeroHalf(rows, cols int) Tensor {
	t := a.Half(rows, cols)
	a.dev.Zero(t)
	return t
}

// Reserve allocates so many bytes at once, while nothing is handed out: steps that need no more than that allocate nothing.
func (a *Arena) Reserve(bytes int64) {
	if n := int(bytes / int64(Float32.Bytes())); n > a.most {
		a.most = n
		for _, c := range a.chunks {
			a.dev.Free(c)
		}
		a.at, a.chunks = Mark{}, append(a.chunks[:0], a.dev.Alloc(n, 1))
	}
}

// Mark returns the present point; Release gives back what was handed out since.
func (a *Arena) Mark() Mark { return a.at }

// Release returns to a mark. Tensors handed out since must no longer be used by work yet to be enqueued.
func (a *Arena) Release(m Mark) { a.at = m }

// Reset gives everything back, at the start of a step.
func (a *Arena) Reset() {
	a.at = Mark{}
	if len(a.chunks) < 2 {
		return
	}
	for _, c := range a.chunks {
		a.dev.Free(c)
	}
	a.chunks = append(a.chunks[:0], a.dev.Alloc(a.most, 1))
}

// Size returns the float32 allocated on the device.
func (a *Arena) Size() int {
	n := 0
	for _, c := range a.chunks {
		n += c.Rows
	}
	return n
}
