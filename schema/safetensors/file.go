package safetensors

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// File is one mapped safetensors file. Reading is safe from several goroutines; Close must come last.
type File struct {
	path   string
	mem    []byte
	header header
	index  map[string]int // into header.entries
}

// Open maps path and checks its header: bounds, gaps, overlaps, sizes, duplicate names.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: no such file: %w", path, fs.ErrNotExist)
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close() // the mapping outlives it
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	if st.Size() < lengthBytes || st.Size() > math.MaxInt {
		_, err := parseHeader(nil, st.Size())
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%s: map: %w", path, err)
	}
	h, err := parseHeader(mem, st.Size())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), unix.Munmap(mem))
	}
	file := &File{path: path, mem: mem, header: h, index: make(map[string]int, len(h.entries))}
	for i, e := range h.entries {
		file.index[e.name] = i
	}
	return file, nil
}

// Names returns the tensors' names in file order.
func (f *File) Names() []string {
	names := make([]string, len(f.header.entries))
	for i, e := range f.header.entries {
		names[i] = e.name
	}
	return names
}

// Has reports whether the file holds the tensor.
func (f *File) Has(name string) bool { _, ok := f.index[name]; return ok }

// Metadata returns the header's metadata, nil if it has none.
func (f *File) Metadata() map[string]string { return f.header.metadata }

// Tensor returns a view of one tensor. A name that is not there is an error.
func (f *File) Tensor(name string) (View, error) {
	i, ok := f.index[name]
	if !ok {
		return View{}, fmt.Errorf("%s: holds no tensor %q", f.path, name)
	}
	if f.mem == nil {
		return View{}, fmt.Errorf("%s: tensor %q: file is closed", f.path, name)
	}
	e := f.header.entries[i]
	lo, hi := f.header.data+e.begin, f.header.data+e.end
	return View{Name: name, DType: e.dtype, Shape: e.shape, Bytes: f.mem[lo:hi:hi], file: f.path}, nil
}

// Close unmaps the file; views of it must not be used any more.
func (f *File) Close() error {
	if f.mem == nil {
		return nil
	}
	mem := f.mem
	f.mem = nil
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("%s: unmap: %w", f.path, err)
	}
	return nil
}
