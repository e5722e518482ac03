package kernelstest

import (
	"fmt"
	"math"

	"penstock/kernels"
)

const guard = float32(-77.5) // exact in bfloat16

// Call builds the operands of one op on one device and keeps what the op wrote. In, Out and InOut are of the device's half
// type, the others of float32. Inputs of the half type are exact in bfloat16. The same sequence of calls on two devices gives the same operands.
type Call struct {
	dev  kernels.Device
	seed uint64
	outs []output
}

type output struct {
	name  string
	whole kernels.Tensor // one guard row before, one after
	view  kernels.Tensor
	value []float32 // a result on the host instead
}

// result is an output's content once the op is done.
type result struct {
	value []float32
	half  bool // rounded to bfloat16
}

// NewCall starts a call on dev.
func NewCall(dev kernels.Device) *Call { return &Call{dev: dev} }

func (c *Call) pattern(n int) []float32 {
	c.seed++
	return Pattern(n, c.seed)
}

// In is an operand that is read: lattice values.
func (c *Call) In(rows, cols int) kernels.Tensor {
	return NewHalf(c.dev, rows, cols, c.pattern(rows*cols))
}

// In32 is In of float32.
func (c *Call) In32(rows, cols int) kernels.Tensor {
	return New(c.dev, rows, cols, c.pattern(rows*cols))
}

// Near is an operand around 1, as the weight of a norm.
func (c *Call) Near(rows, cols int) kernels.Tensor {
	v := c.pattern(rows * cols)
	for i := range v {
		v[i] = 1 + v[i]/8
	}
	return New(c.dev, rows, cols, v)
}

// Rows is an index of n entries below limit.
func (c *Call) Rows(n, limit int) kernels.Index {
	c.seed++
	return c.dev.Index(Rows(n, limit, c.seed))
}

// Out is an operand that the op must set wholly: it starts as NaN.
func (c *Call) Out(name string, rows, cols int) kernels.Tensor {
	return c.out(c.dev.AllocHalf, name, rows, cols, poison(rows*cols))
}

// Out32 is Out of float32.
func (c *Call) Out32(name string, rows, cols int) kernels.Tensor {
	return c.out(c.dev.Alloc, name, rows, cols, poison(rows*cols))
}

// InOut is an operand that the op changes.
func (c *Call) InOut(name string, rows, cols int) kernels.Tensor {
	return c.out(c.dev.AllocHalf, name, rows, cols, c.pattern(rows*cols))
}

// InOut32 is InOut of float32.
func (c *Call) InOut32(name string, rows, cols int) kernels.Tensor {
	return c.out(c.dev.Alloc, name, rows, cols, c.pattern(rows*cols))
}

// Positive is InOut32 with values in [0, 1].
func (c *Call) Positive(name string, rows, cols int) kernels.Tensor {
	v := c.pattern(rows * cols)
	for i := range v {
		v[i] *= v[i]
	}
	return c.out(c.dev.Alloc, name, rows, cols, v)
}

func poison(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(math.NaN())
	}
	return v
}

func (c *Call) out(alloc func(rows, cols int) kernels.Tensor, name string, rows, cols int, v []float32) kernels.Tensor {
	whole := make([]float32, (rows+2)*cols)
	for i := range whole {
		whole[i] = guard
	}
	copy(whole[cols:], v)
	t := alloc(rows+2, cols)
	c.dev.Upload(t, whole)
	o := output{name: name, whole: t, view: t.RowRange(1, rows+1)}
	c.outs = append(c.outs, o)
	return o.view
}

// Value keeps a result that the op returned.
func (c *Call) Value(name string, v ...float32) {
	c.outs = append(c.outs, output{name: name, value: v})
}

// results waits for the op and returns each output, or an error if the op failed or wrote outside of one.
func (c *Call) results() (map[string]result, error) {
	if err := c.dev.Sync(); err != nil {
		return nil, err
	}
	got := make(map[string]result)
	for _, o := range c.outs {
		if o.whole.IsNil() {
			got[o.name] = result{value: o.value}
			continue
		}
		v := Read(c.dev, o.whole)
		n := o.whole.Cols
		for _, g := range [][]float32{v[:n], v[len(v)-n:]} {
			for _, x := range g {
				if x != guard {
					return nil, fmt.Errorf("%s: wrote outside of %s", c.dev.Name(), o.name)
				}
			}
		}
		got[o.name] = result{v[n : len(v)-n], o.whole.Type == kernels.BFloat16}
	}
	return got, nil
}
