package kernels

// arenaChunk is the smallest allocation of an arena, in elements; arenaAlign keeps every tensor on a 256-byte line.
const (
	arenaChunk = 1 << 20
	arenaAlign = 64
)

// Arena hands out the scratch tensors of a step from a few large allocations. After the largest step has been
// seen once, no step allocates. Contents are undefined. Like its Device it serves one goroutine.
type Arena struct {
	dev    Device
	chunks []Tensor // one column each
	at     Mark
}

// Mark is a point of an arena to return to.
type Mark struct{ chunk, used int }

// NewArena returns an empty arena over dev.
func NewArena(dev Device) *Arena { return &Arena{dev: dev} }

// Get returns a rows×cols tensor that is valid until the arena is reset, or released to an earlier mark.
func (a *Arena) Get(rows, cols int) Tensor {
	n := rows * cols
	take := (n + arenaAlign - 1) / arenaAlign * arenaAlign
	for a.at.chunk < len(a.chunks) && a.at.used+take > a.chunks[a.at.chunk].Rows {
		a.at = Mark{chunk: a.at.chunk + 1}
	}
	if a.at.chunk == len(a.chunks) {
		a.chunks = append(a.chunks, a.dev.Alloc(max(take, arenaChunk), 1))
	}
	t := a.chunks[a.at.chunk].RowRange(a.at.used, a.at.used+n).Reshape(rows, cols)
	a.at.used += take
	return t
}

// Zeroed is Get with every element set to 0.
func (a *Arena) Zeroed(rows, cols int) Tensor {
	t := a.Get(rows, cols)
	a.dev.Zero(t)
	return t
}

// Mark returns the present point; Release gives back what was handed out since.
func (a *Arena) Mark() Mark { return a.at }

// Release returns to a mark. Tensors handed out since must no longer be used by work yet to be enqueued.
func (a *Arena) Release(m Mark) { a.at = m }

// Reset gives everything back, at the start of a step.
func (a *Arena) Reset() { a.at = Mark{} }

// Size returns the elements allocated on the device.
func (a *Arena) Size() int {
	n := 0
	for _, c := range a.chunks {
		n += c.Rows
	}
	return n
}
