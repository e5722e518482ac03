//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/ebitengine/purego"
)

// blas is a handle of cuBLASLt, the part of cuBLAS that multiplies matrices. Its calls are made on the device's thread.
type blas struct {
	handle  uintptr
	version int
	stream  uintptr
	space   int64 // bytes that a product may take beside its operands
	plans   *kept[planned, *plan]

	create, destroy, multiply, heuristic           function
	newOperation, setOperation, dropOperation      function
	newPreference, setPreference, dropPreference   function
	newLayout, dropLayout, versionNumber, statuses function
}

// function is one of the library's.
type function struct {
	name string
	at   uintptr
}

// cublasDir is the environment variable that names the directory of libcublasLt.so.*, to be looked into first.
const cublasDir = "PENSTOCK_CUBLAS"

const sonames = 14 // newest first, down to 11

// loadBLAS loads the library and creates a handle in the current context, for products in a stream that take so many bytes
// beside their operands.
func loadBLAS(stream uintptr, space int64) (*blas, error) {
	lib, err := openBLAS()
	if err != nil {
		return nil, err
	}
	b := &blas{stream: stream, space: space}
	for name, f := range map[string]*function{
		"cublasLtCreate": &b.create, "cublasLtDestroy": &b.destroy, "cublasLtMatmul": &b.multiply,
		"cublasLtMatmulAlgoGetHeuristic": &b.heuristic,
		"cublasLtMatmulDescCreate":       &b.newOperation, "cublasLtMatmulDescSetAttribute": &b.setOperation,
		"cublasLtMatmulDescDestroy":      &b.dropOperation,
		"cublasLtMatmulPreferenceCreate": &b.newPreference, "cublasLtMatmulPreferenceSetAttribute": &b.setPreference,
		"cublasLtMatmulPreferenceDestroy": &b.dropPreference,
		"cublasLtMatrixLayoutCreate":      &b.newLayout, "cublasLtMatrixLayoutDestroy": &b.dropLayout,
		"cublasLtGetVersion": &b.versionNumber, "cublasLtGetStatusString": &b.statuses,
	} {
		f.name = name
		if f.at, err = purego.Dlsym(lib, name); err != nil {
			return nil, fmt.Errorf("cuBLASLt: %w", err)
		}
	}
	b.plans = keep(plansKept/2, b.plan, b.forget)
	version, _, _ := purego.SyscallN(b.versionNumber.at)
	b.version = int(version)
	return b, b.call(b.create, uintptr(unsafe.Pointer(&b.handle)))
}

func openBLAS() (uintptr, error) {
	var names []string
	for so := sonames; so >= 11; so-- {
		names = append(names, fmt.Sprintf("libcublasLt.so.%d", so))
	}
	lib, err := openLibrary([]string{os.Getenv(cublasDir), "", "/usr/local/cuda/lib64"}, names)
	if err != nil {
		err = fmt.Errorf("cuBLASLt is not there: install cuBLAS, or set %s to the directory of libcublasLt.so: %w", cublasDir, err)
	}
	return lib, err
}

// call turns a status into an error. Arguments may be addresses of Go memory.
//
//go:uintptrescapes
func (b *blas) call(f function, args ...uintptr) error {
	r, _, _ := purego.SyscallN(f.at, args...)
	if status := int32(r); status != 0 {
		text, _, _ := purego.SyscallN(b.statuses.at, uintptr(status))
		return fmt.Errorf("%s: %s (status %d)", f.name, cString(text), status)
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

func (b *blas) close() error { return errors.Join(b.plans.close(), b.call(b.destroy, b.handle)) }
