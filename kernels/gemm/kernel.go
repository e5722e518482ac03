package gemm

// kernel is the inner loop of a blocked product.
type kernel struct {
	name   string
	mr, nr int

	// tile: c [mr, nr] = a [mr, k] · b [k, nr], added to c if load. Element (i, p) of a is a[i·rs+p·cs]; b has stride
	// bs and c ldc. k is at least 1.
	tile func(k int, a *float32, rs, cs int, b *float32, bs int, c *float32, ldc int, load bool)

	// copy6 and copy16: dst [k, 6 or 16] = src. Nil: packing does without.
	copy6, copy16 copier

	// transpose: dst [8·blocks, 8] = srcᵀ, src [8, 8·blocks], blocks at least 1; ldd and lds are strides.
	// Nil: packing does without.
	transpose func(blocks int, dst *float32, ldd int, src *float32, lds int)

	// dots: out [12, 8] += w [12, k] · x [k, 8], k at least 1; out and x are dense, w has stride ldw.
	// Nil: there is no path for few rows.
	dots func(k int, w *float32, ldw int, x, out *float32)
}

// copier copies k short rows, at least one; ldd and lds are strides.
type copier func(k int, dst *float32, ldd int, src *float32, lds int)
