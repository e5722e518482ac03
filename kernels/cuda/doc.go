// Package cuda is the device for NVIDIA GPUs, built with -tags cuda.
//
// Contexts, memory, streams, modules and launches are gorgonia.org/cu's; the few driver calls that it lacks are in driver.go;
// matrix products are cuBLASLt's, which is loaded when a device is opened. Everything else is the CUDA C++ in src, one op a
// file, which `task build:cuda` compiles to fat binaries that are embedded in the program (a file that includes half.cuh to
// two, one for each half type). Where they lie in a directory of their own, PENSTOCK_KERNELS names it.
//
// Each device has one operating system thread that alone touches its context. Ops check shapes in the caller, then queue
// their launch to that thread; what must wait for a result waits for the thread. Work of one device runs in one stream, in
// call order. The first failure is kept, with the op and its shapes, and returned by Sync; ops after it do nothing.
//
// What kernels.OpList calls the half type is bfloat16, unless the device is opened for float32; it is widened when it is read and
// every sum is float32. Products of float32 are float32 throughout (no TF32).
package cuda
