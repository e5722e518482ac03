package gemm

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"penstock/kernels/internal/team"
)

// openBLASRows is how many rows of c one call computes. It is fixed, so that the result does not depend on the threads.
const openBLASRows = 128

// openBLAS loads the library, without cgo, and holds it to one thread of its own; the team calls it side by side.
var openBLAS = sync.OnceValues(func() (*Path, error) {
	lib, err := purego.Dlopen("libopenblas.so.0", purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load OpenBLAS (Debian: libopenblas0-pthread): %w", err)
	}
	threads, err := purego.Dlsym(lib, "openblas_set_num_threads")
	if err != nil {
		return nil, fmt.Errorf("load OpenBLAS: %w", err)
	}
	sgemm, err := purego.Dlsym(lib, "sgemm_")
	if err != nil {
		return nil, fmt.Errorf("load OpenBLAS: %w", err)
	}
	purego.SyscallN(threads, 1)
	return &Path{name: "openblas", mul: func(t *team.Team, c, a, b Matrix, ta, tb, add bool) {
		t.Run(ceil(c.Rows, openBLASRows), func(i int) {
			lo, hi := i*openBLASRows, min((i+1)*openBLASRows, c.Rows)
			part := a.RowRange
			if ta {
				part = a.ColRange
			}
			fortran(sgemm, c.RowRange(lo, hi), part(lo, hi), b, ta, tb, add)
		})
	}}, nil
})

// fortran calls SGEMM, which is column-major: it computes cᵀ = op(b)ᵀ·op(a)ᵀ.
func fortran(sgemm uintptr, c, a, b Matrix, ta, tb, add bool) {
	one, beta := float32(1), float32(0)
	if add {
		beta = 1
	}
	flags := [2]byte{'N', 'T'}
	fa, fb := &flags[flag(ta)], &flags[flag(tb)]
	k := a.Cols
	if ta {
		k = a.Rows
	}
	d := [6]int32{int32(c.Cols), int32(c.Rows), int32(k), int32(b.Stride), int32(a.Stride), int32(c.Stride)}
	purego.SyscallN(sgemm, uintptr(unsafe.Pointer(fb)), uintptr(unsafe.Pointer(fa)),
		uintptr(unsafe.Pointer(&d[0])), uintptr(unsafe.Pointer(&d[1])), uintptr(unsafe.Pointer(&d[2])),
		uintptr(unsafe.Pointer(&one)), uintptr(unsafe.Pointer(&b.Data[0])), uintptr(unsafe.Pointer(&d[3])),
		uintptr(unsafe.Pointer(&a.Data[0])), uintptr(unsafe.Pointer(&d[4])),
		uintptr(unsafe.Pointer(&beta)), uintptr(unsafe.Pointer(&c.Data[0])), uintptr(unsafe.Pointer(&d[5])))
}

func flag(t bool) int {
	if t {
		return 1
	}
	return 0
}
