//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/ebitengine/purego"

	base "penstock/kernels"
)

// blas is a cuBLAS handle. Its calls are made on the device's thread.
type blas struct {
	handle  uintptr
	version int
	gemmEx  uintptr
	destroy uintptr
	text    uintptr
}

// cublasDir is the environment variable that names the directory of libcublas.so.*, to be looked into first.
const cublasDir = "PENSTOCK_CUBLAS"

const sonames = 14 // newest first, down to 11

// loadBLAS loads the library, creates a handle in the current context and binds it to a stream.
func loadBLAS(stream uintptr) (*blas, error) {
	lib, err := openBLAS()
	if err != nil {
		return nil, err
	}
	b := &blas{}
	var create, setStream, version, mathMode uintptr
	for name, f := range map[string]*uintptr{
		"cublasCreate_v2": &create, "cublasSetStream_v2": &setStream, "cublasGetVersion_v2": &version, "cublasSetMathMode": &mathMode,
		"cublasGemmEx": &b.gemmEx, "cublasDestroy_v2": &b.destroy, "cublasGetStatusString": &b.text,
	} {
		if *f, err = purego.Dlsym(lib, name); err != nil {
			return nil, fmt.Errorf("cuBLAS: %w", err)
		}
	}
	if err := b.call("cublasCreate", create, uintptr(unsafe.Pointer(&b.handle))); err != nil {
		return nil, err
	}
	var v int32
	const exactSums = 16 // partial sums of a product stay float32; float32 products are without TF32
	err = errors.Join(
		b.call("cublasSetStream", setStream, b.handle, stream),
		b.call("cublasSetMathMode", mathMode, b.handle, exactSums),
		b.call("cublasGetVersion", version, b.handle, uintptr(unsafe.Pointer(&v))))
	b.version = int(v)
	return b, err
}

func openBLAS() (uintptr, error) {
	var errs []error
	for _, dir := range []string{os.Getenv(cublasDir), "", "/usr/local/cuda/lib64"} {
		for so := sonames; so >= 11; so-- {
			name := fmt.Sprintf("libcublas.so.%d", so)
			if dir != "" {
				if name = filepath.Join(dir, name); !exists(name) {
					continue
				}
			}
			lib, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
			if err == nil {
				return lib, nil
			}
			errs = append(errs, err)
		}
	}
	return 0, fmt.Errorf("cuBLAS is not there: install it, or set %s to the directory of libcublas.so: %w", cublasDir, errors.Join(errs...))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// call turns a status into an error. Arguments may be addresses of Go memory.
//
//go:uintptrescapes
func (b *blas) call(name string, f uintptr, args ...uintptr) error {
	r, _, _ := purego.SyscallN(f, args...)
	if status := int32(r); status != 0 {
		text, _, _ := purego.SyscallN(b.text, uintptr(status))
		return fmt.Errorf("%s: %s (status %d)", name, cString(text), status)
	}
	return nil
}

// cString copies a string of the library's.
func cString(p uintptr) string {
	if p == 0 {
		return "unknown status"
	}
	at := *(**byte)(unsafe.Pointer(&p))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(at), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(at, n))
}

// factors are read by cuBLAS during its calls.
var factors = [2]float32{0, 1}

// product is c [m, n] = op(a) [m, k]·op(b) [k, n] + beta·c, none of the sizes 0. from is the type of a and b, to that of c.
type product struct {
	m, n, k  int
	ta, tb   bool
	beta     float32
	from, to base.Type
}

// gemm runs a product of row-major matrices. cuBLAS is column-major: it computes cᵀ = op(b)ᵀ·op(a)ᵀ.
func (b *blas) gemm(c, x, w address, p product) error {
	const compute32F, algo = 68, ^uintptr(0) // CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT
	ldx, ldw := p.k, p.n
	if p.ta {
		ldx = p.m
	}
	if p.tb {
		ldw = p.k
	}
	one, add := uintptr(unsafe.Pointer(&factors[1])), uintptr(unsafe.Pointer(&factors[int(p.beta)]))
	return b.call("cublasGemmEx", b.gemmEx, b.handle, flag(p.tb), flag(p.ta), uintptr(p.n), uintptr(p.m), uintptr(p.k), one,
		uintptr(w), blasType(p.from), uintptr(ldw), uintptr(x), blasType(p.from), uintptr(ldx), add,
		uintptr(c), blasType(p.to), uintptr(p.n), compute32F, algo)
}

// blasType is a type's number in cudaDataType.
func blasType(t base.Type) uintptr {
	if t == base.BFloat16 {
		return 14 // CUDA_R_16BF
	}
	return 0 // CUDA_R_32F
}

func flag(t bool) uintptr {
	if t {
		return 1
	}
	return 0
}

func (b *blas) close() error { return b.call("cublasDestroy", b.destroy, b.handle) }
