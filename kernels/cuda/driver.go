//go:build cuda

package cuda

// #cgo LDFLAGS: -ldl
// #include <cuda.h>
// // Is there where the program is linked with deploy/tools/cuda/lazy.c in place of the driver.
// extern const char *penstock_driver_missing(void) __attribute__((weak));
// static const char *driver_missing(void) { return penstock_driver_missing ? penstock_driver_missing() : 0; }
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"gorgonia.org/cu"

	base "penstock/kernels"
)

// driverError is a failure of the CUDA driver, in its own words.
type driverError C.CUresult

func (e driverError) Error() string {
	var name, text *C.char
	C.cuGetErrorName(C.CUresult(e), &name)
	C.cuGetErrorString(C.CUresult(e), &text)
	if name == nil || text == nil {
		return fmt.Sprintf("CUDA error %d", int(e))
	}
	return fmt.Sprintf("%s (%s)", C.GoString(text), C.GoString(name))
}

// Is makes a [base.ErrFailed] of what the driver says must end the process, and of what the Multi-Process Service answers while it
// recovers from such a failure.
func (e driverError) Is(target error) bool {
	if target != base.ErrFailed {
		return false
	}
	switch e {
	case C.CUDA_ERROR_ILLEGAL_ADDRESS, C.CUDA_ERROR_LAUNCH_TIMEOUT, C.CUDA_ERROR_ASSERT, C.CUDA_ERROR_HARDWARE_STACK_ERROR,
		C.CUDA_ERROR_ILLEGAL_INSTRUCTION, C.CUDA_ERROR_MISALIGNED_ADDRESS, C.CUDA_ERROR_INVALID_ADDRESS_SPACE, C.CUDA_ERROR_INVALID_PC,
		C.CUDA_ERROR_LAUNCH_FAILED, C.CUDA_ERROR_MPS_CONNECTION_FAILED, C.CUDA_ERROR_MPS_RPC_FAILURE, C.CUDA_ERROR_MPS_SERVER_NOT_READY,
		C.CUDA_ERROR_MPS_CLIENT_TERMINATED:
		return true
	}
	return false
}

func check(r C.CUresult) error {
	if r == C.CUDA_SUCCESS {
		return nil
	}
	return driverError(r)
}

// explain puts the driver's words in place of the code that package cu returns.
func explain(err error) error {
	if v := reflect.ValueOf(err); err != nil && v.Kind() == reflect.Int && v.Type().PkgPath() == "gorgonia.org/cu" {
		return driverError(v.Int())
	}
	return err
}

// Driver says why the CUDA driver is not there, if it is not.
func Driver() error {
	if why := C.driver_missing(); why != nil {
		return errors.New("the CUDA driver is not there: " + C.GoString(why))
	}
	return nil
}

// allowShared lets a kernel use so many bytes of dynamic shared memory a block; 48 KiB need no leave.
func allowShared(f cu.Function, bytes int) error {
	fn := *(*C.CUfunction)(unsafe.Pointer(&f)) // the only field
	return check(C.cuFuncSetAttribute(fn, C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(bytes)))
}

// allocPinned returns page-locked host memory, outside of Go's heap, that copies to the device without waiting.
func allocPinned(bytes int) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	return p, check(C.cuMemHostAlloc(&p, C.size_t(bytes), C.CU_MEMHOSTALLOC_PORTABLE))
}

// IPCHandleBytes is the length of an IPC handle.
const IPCHandleBytes = C.CU_IPC_HANDLE_SIZE

func ipcExport(p cu.DevicePtr) ([]byte, error) {
	var h C.CUipcMemHandle
	if err := check(C.cuIpcGetMemHandle(&h, C.CUdeviceptr(p))); err != nil {
		return nil, err
	}
	return C.GoBytes(unsafe.Pointer(&h), C.int(unsafe.Sizeof(h))), nil
}

func ipcOpen(handle []byte) (cu.DevicePtr, error) {
	var h C.CUipcMemHandle
	if len(handle) != int(unsafe.Sizeof(h)) {
		return 0, fmt.Errorf("IPC handle of %d bytes, want %d", len(handle), unsafe.Sizeof(h))
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&h)), len(handle)), handle)
	var p C.CUdeviceptr
	err := check(C.cuIpcOpenMemHandle(&p, h, C.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
	return cu.DevicePtr(p), err
}

func ipcClose(p cu.DevicePtr) error { return check(C.cuIpcCloseMemHandle(C.CUdeviceptr(p))) }
