//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/ebitengine/purego"
)

// blas is a cuBLAS handle. Its calls are made on the device's thread.
type blas struct {
	handle  uintptr
	version int
	sgemm   uintptr
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
		"cublasSgemm_v2": &b.sgemm, "cublasDestroy_v2": &b.destroy, "cublasGetStatusString": &b.text,
	} {
		if *f, err = purego.Dlsym(lib, name); err != nil {
			return nil, fmt.Errorf("cuBLAS: %w", err)
		}
	}
	if err := b.call("cublasCreate", create, uintptr(unsafe.Pointer(&b.handle))); err != nil {
		return nil, err
	}
	var v int32
	const defaultMath = 0 // float32 products without TF32
	err = errors.Join(
		b.call("cublasSetStream", setStream, b.handle, stream),
		b.call("cublasSetMathMode", mathMode, b.handle, defaultMath),
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

// gemm: c [m, n] = op(a)·op(b) + beta·c, row-major, none of the sizes 0. cuBLAS is column-major: it computes
// cᵀ = op(b)ᵀ·op(a)ᵀ.
func (b *blas) gemm(c, a, w address, m, n, k int, ta, tb bool, beta float32) error {
	lda, ldb := k, n
	if ta {
		lda = m
	}
	if tb {
		ldb = k
	}
	one, add := uintptr(unsafe.Pointer(&factors[1])), uintptr(unsafe.Pointer(&factors[int(beta)]))
	return b.call("cublasSgemm", b.sgemm, b.handle, flag(tb), flag(ta), uintptr(n), uintptr(m), uintptr(k), one,
		uintptr(w), uintptr(ldb), uintptr(a), uintptr(lda), add, uintptr(c), uintptr(n))
}

func flag(t bool) uintptr {
	if t {
		return 1
	}
	return 0
}

func (b *blas) close() error { return b.call("cublasDestroy", b.destroy, b.handle) }
