//go:build cuda

package cuda

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"unsafe"

	"gorgonia.org/cu"

	base "penstock/kernels"
)

//go:embed all:built
var embedded embed.FS

// kernelsDir is the environment variable that names a directory of fat binaries to use in place of the embedded ones.
const kernelsDir = "PENSTOCK_KERNELS"

// kernel is an entry of a fat binary.
type kernel struct {
	file, name string
	shared     int  // bytes of dynamic shared memory
	optional   bool // only some GPUs have it; its function is zero on others
}

// kernels lists every kernel, in the order of registration.
var kernels []kernel

// register adds a kernel and returns its number.
func register(file, name string, shared int) int {
	kernels = append(kernels, kernel{file: file, name: name, shared: shared})
	return len(kernels) - 1
}

// registerOptional adds a kernel that is built for some GPUs alone.
func registerOptional(file, name string, shared int) int {
	k := register(file, name, shared)
	kernels[k].optional = true
	return k
}

// typed is a kernel over the half type: its number for each type of elements.
type typed [2]int

// registerTyped adds a kernel of a file that includes half.cuh, and so is compiled for both types.
func registerTyped(file, name string, shared int) (k typed) {
	for _, t := range []base.Type{base.Float32, base.BFloat16} {
		k[t] = register(fmt.Sprintf("%s.%v", file, t), name, shared)
	}
	return k
}

// fatbins returns where the kernels lie and what to call that place.
func fatbins() (fs.FS, string, error) {
	if dir := os.Getenv(kernelsDir); dir != "" {
		return os.DirFS(dir), dir, nil
	}
	sub, err := fs.Sub(embedded, "built")
	return sub, "this program", err
}

// loadKernels loads every module and finds every kernel in the current context, until Close.
func (d *Device) loadKernels() ([]cu.Function, error) {
	dir, place, err := fatbins()
	if err != nil {
		return nil, err
	}
	modules := map[string]cu.Module{}
	var functions []cu.Function
	for _, k := range kernels {
		m, ok := modules[k.file]
		if !ok {
			image, err := fs.ReadFile(dir, k.file+".fatbin")
			if errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("%s holds no CUDA kernels (%s.fatbin): build with `task build:cuda`, or set %s to the directory of the built kernels", place, k.file, kernelsDir)
			}
			if err != nil {
				return nil, fmt.Errorf("CUDA kernels: %w", err)
			}
			if m, err = cu.LoadData(string(image)); err != nil {
				return nil, fmt.Errorf("load CUDA kernels %s.fatbin of %s (are they built for this GPU?): %w", k.file, place, explain(err))
			}
			modules[k.file] = m
			d.onClose(m.Unload)
		}
		f, err := m.Function(k.name)
		if k.optional && errors.Is(err, cu.NotFound) {
			functions = append(functions, cu.Function{})
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("CUDA kernel %s in %s.fatbin of %s: %w", k.name, k.file, place, explain(err))
		}
		if k.shared > 48<<10 {
			if err := allowShared(f, k.shared); err != nil {
				return nil, fmt.Errorf("CUDA kernel %s: %d bytes of shared memory: %w", k.name, k.shared, err)
			}
		}
		functions = append(functions, f)
	}
	return functions, nil
}

// grid is the number of blocks in x and y, and of threads a block.
type grid struct{ x, y, threads int }

// launch enqueues a kernel on the stream; it runs on the device's thread. An empty grid launches nothing. Arguments are
// address, int32, int64 or float32, as the kernel declares them.
func (d *Device) launch(k int, g grid, args ...any) error {
	if g.x == 0 || g.y == 0 {
		return nil
	}
	words, at := make([]uint64, len(args)), make([]unsafe.Pointer, len(args))
	for i, a := range args {
		switch v := a.(type) {
		case address:
			words[i] = uint64(v)
		case int32:
			words[i] = uint64(uint32(v))
		case int64:
			words[i] = uint64(v)
		case float32:
			words[i] = uint64(math.Float32bits(v))
		default:
			panic(fmt.Sprintf("cuda: kernel %s: argument %d is a %T", kernels[k].name, i, a))
		}
		at[i] = unsafe.Pointer(&words[i])
	}
	return d.functions[k].Launch(g.x, g.y, 1, g.threads, 1, 1, kernels[k].shared, d.stream, at)
}
