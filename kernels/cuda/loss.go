//go:build cuda

package cuda

import (
	"unsafe"

	base "penstock/kernels"
)

var (
	kHeadLoss = registerTyped("head_loss", "head_loss", 0)
	kArgmax   = register("argmax", "argmax", 0)
)

const lossThreads = 1024

// project calls fn, on the device's thread, with z = h·headᵀ in float32 for ranges [lo, hi) of rows that fit the scratch
// memory.
func (d *Device) project(h, head base.Tensor, fn func(z address, lo, hi int) error) error {
	rows, vocab := h.Rows, head.Rows
	size := chunkRows(rows, vocab)
	z, err := d.scratch(logits, bytesOf(size*vocab))
	if err != nil {
		return err
	}
	for lo := 0; lo < rows; lo += size {
		hi := min(lo+size, rows)
		p := product{m: hi - lo, n: vocab, k: h.Cols, tb: true, from: h.Type, to: base.Float32}
		if err := d.product(z, address(h.RowRange(lo, hi).Ptr), address(head.Ptr), p); err != nil {
			return err
		}
		if err := fn(z, lo, hi); err != nil {
			return err
		}
	}
	return nil
}

// element is the address of element i of a list of float32 or int32, or 0 for none.
func element(p address, i int) address {
	if p == 0 {
		return 0
	}
	return p + address(bytesOf(i))
}

// HeadLoss: z = h·headᵀ; ce = logsumexp(z) - z[label]; hit = (label is the first maximum of z);
// dh = weight·(softmax(z) - onehot(label))·head.
func (d *Device) HeadLoss(ce, hit, dh, h, head, weight base.Tensor, labels base.Index) {
	const op = "HeadLoss"
	base.CheckHeadLoss(ce, hit, dh, h, head, weight, labels)
	within(op, "head", labels, head.Rows)
	of := same(op, h, head, dh)
	wide(op, ce, hit, weight)
	at(op, h)
	at(op, head)
	at(op, dh)
	ces, hits, by, list := at(op, ce), at(op, hit), at(op, weight), address(labels.Ptr)
	vocab := head.Rows
	d.enqueue(&call{op, []any{shape(h), shape(head)}}, func() error {
		var g address
		if !dh.IsNil() {
			var err error
			if g, err = d.scratch(logitGrads, int64(chunkRows(h.Rows, vocab)*vocab*of.Bytes())); err != nil {
				return err
			}
		}
		return d.project(h, head, func(z address, lo, hi int) error {
			err := d.launch(kHeadLoss[of], wideRows(hi-lo, vocab, of, lossThreads),
				element(ces, lo), element(hits, lo), g, z, element(by, lo), element(list, lo), int32(vocab))
			if err != nil || dh.IsNil() {
				return err
			}
			p := product{m: hi - lo, n: h.Cols, k: vocab, from: of, to: of}
			return d.product(address(dh.RowRange(lo, hi).Ptr), g, address(head.Ptr), p)
		})
	})
}

// Argmax returns, for each row of h, the first maximum of h_i·headᵀ.
func (d *Device) Argmax(h, head base.Tensor) []int32 {
	const op = "Argmax"
	base.Want(op, "head", head, head.Rows, h.Cols)
	same(op, h, head)
	top := make([]int32, h.Rows)
	if h.Rows == 0 {
		return top
	}
	c := &call{op, []any{shape(h), shape(head)}}
	at(op, h)
	at(op, head)
	list := d.result(c, bytesOf(h.Rows))
	d.enqueue(c, func() error {
		return d.project(h, head, func(z address, lo, hi int) error {
			return d.launch(kArgmax, wideRows(hi-lo, head.Rows, base.Float32, lossThreads), element(list, lo), z, int32(head.Rows))
		})
	})
	d.fetch(c, unsafe.Pointer(&top[0]), list, bytesOf(h.Rows))
	return top
}

// result returns the buffer of what ops return, grown to so many bytes.
func (d *Device) result(c *call, bytes int64) (p address) {
	d.keep(c, d.wait(func() (err error) {
		if d.err == nil {
			p, err = d.scratch(results, bytes)
		}
		return err
	}))
	return p
}
