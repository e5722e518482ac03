//go:build cuda

package cuda

import (
	"unsafe"

	base "penstock/kernels"
)

var (
	kHeadLoss = register("head_loss", "head_loss", 0)
	kArgmax   = register("argmax", "argmax", 0)
)

// logitElements bounds the logits that stand at one time.
const logitElements = 1 << 26

// project calls fn, on the device's thread, with z = h·headᵀ for ranges [lo, hi) of rows that fit the scratch memory.
func (d *Device) project(h, head address, rows, hidden, vocab int, fn func(z address, lo, hi int) error) error {
	size := min(rows, max(1, logitElements/max(1, vocab)))
	z, err := d.scratch(logits, bytesOf(size*vocab))
	if err != nil {
		return err
	}
	for lo := 0; lo < rows; lo += size {
		hi := min(lo+size, rows)
		if err := d.blas.gemm(z, row(h, lo, hidden), head, hi-lo, vocab, hidden, false, true, 0); err != nil {
			return err
		}
		if err := fn(z, lo, hi); err != nil {
			return err
		}
	}
	return nil
}

// row is the address of row i of a matrix, or 0 for none.
func row(p address, i, cols int) address {
	if p == 0 {
		return 0
	}
	return p + address(bytesOf(i*cols))
}

// HeadLoss: z = h·headᵀ; ce = logsumexp(z) - z[label]; hit = (label is the first maximum of z);
// dh = weight·(softmax(z) - onehot(label))·head.
func (d *Device) HeadLoss(ce, hit, dh, h, head, weight base.Tensor, labels base.Index) {
	const op = "HeadLoss"
	base.CheckHeadLoss(ce, hit, dh, h, head, weight, labels)
	within(op, "head", labels, head.Rows)
	ces, hits, dhs, hs, w, by, list := at(op, ce), at(op, hit), at(op, dh), at(op, h), at(op, head), at(op, weight), address(labels.Ptr)
	if dh.IsNil() {
		by = 0
	}
	vocab, hidden := head.Rows, head.Cols
	d.enqueue(&call{op, []any{shape(h), shape(head)}}, func() error {
		return d.project(hs, w, h.Rows, hidden, vocab, func(z address, lo, hi int) error {
			err := d.launch(kHeadLoss, overRows(hi-lo, vocab), row(ces, lo, 1), row(hits, lo, 1), z, row(by, lo, 1), list+address(bytesOf(lo)), int32(vocab))
			if err != nil || dh.IsNil() {
				return err
			}
			return d.blas.gemm(row(dhs, lo, hidden), z, w, hi-lo, hidden, vocab, false, false, 0)
		})
	})
}

// Argmax returns, for each row of h, the first maximum of h_i·headᵀ.
func (d *Device) Argmax(h, head base.Tensor) []int32 {
	const op = "Argmax"
	base.Want(op, "head", head, head.Rows, h.Cols)
	top := make([]int32, h.Rows)
	if h.Rows == 0 {
		return top
	}
	c := &call{op, []any{shape(h), shape(head)}}
	hs, w := at(op, h), at(op, head)
	list := d.result(c, bytesOf(h.Rows))
	d.enqueue(c, func() error {
		return d.project(hs, w, h.Rows, head.Cols, head.Rows, func(z address, lo, hi int) error {
			return d.launch(kArgmax, overRows(hi-lo, head.Rows), list+address(bytesOf(lo)), z, int32(head.Rows))
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
