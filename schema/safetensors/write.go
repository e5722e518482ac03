package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"penstock/schema/internal/durable"
)

// Spec is the name, type and shape of a tensor to be written.
type Spec struct {
	Name  string
	DType DType
	Shape []int
}

// Writer writes one file, tensor by tensor in any order. The file appears under its path at Commit, whole and synced.
type Writer struct {
	path    string
	file    *durable.File
	entries map[string]entry
	data    int64
	written map[string]bool
	buf     []byte
}

// Create starts a file with the tensors of specs, laid out by falling element size and then by name.
// The caller writes each tensor once and ends with Commit or Abort.
func Create(path string, specs []Spec, metadata map[string]string) (*Writer, error) {
	entries, head, err := layout(specs, metadata)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f, err := durable.Create(path)
	if err != nil {
		return nil, err
	}
	w := &Writer{path: path, file: f, entries: entries, data: int64(len(head)), written: map[string]bool{}}
	if _, err := f.Write(head); err != nil {
		f.Abort()
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return w, nil
}

// layout returns the entries and the head of the file, padded so that the data is aligned to 64 bytes.
func layout(specs []Spec, metadata map[string]string) (map[string]entry, []byte, error) {
	specs = slices.Clone(specs)
	slices.SortFunc(specs, func(a, b Spec) int {
		if a.DType.Size() != b.DType.Size() {
			return b.DType.Size() - a.DType.Size()
		}
		return strings.Compare(a.Name, b.Name)
	})
	var text bytes.Buffer
	field := func(name string, value any) {
		sep := byte(',')
		if text.Len() == 0 {
			sep = '{'
		}
		text.WriteByte(sep)
		for i, v := range []any{name, value} {
			b, _ := json.Marshal(v) // strings and integers only: cannot fail
			if i == 1 {
				text.WriteByte(':')
			}
			text.Write(b)
		}
	}
	if len(metadata) > 0 {
		field(metadataKey, metadata)
	}
	entries := make(map[string]entry, len(specs))
	var at int64
	for _, s := range specs {
		if s.DType.Size() == 0 {
			return nil, nil, fmt.Errorf("tensor %q: cannot write type %q", s.Name, s.DType)
		}
		if _, twice := entries[s.Name]; twice || s.Name == metadataKey {
			return nil, nil, fmt.Errorf("tensor name %q is reserved or stands twice", s.Name)
		}
		shape := slices.Clone(s.Shape)
		if shape == nil {
			shape = []int{}
		}
		e := entry{s.Name, s.DType, shape, at, at + int64(s.DType.Size()*product(shape))}
		if err := e.checkSize(); err != nil {
			return nil, nil, err
		}
		at = e.end
		entries[s.Name] = e
		field(s.Name, struct {
			DType   DType    `json:"dtype"`
			Shape   []int    `json:"shape"`
			Offsets [2]int64 `json:"data_offsets"`
		}{e.dtype, e.shape, [2]int64{e.begin, e.end}})
	}
	if text.Len() == 0 {
		text.WriteByte('{')
	}
	text.WriteByte('}')
	for (lengthBytes+text.Len())%64 != 0 {
		text.WriteByte(' ')
	}
	head := binary.LittleEndian.AppendUint64(nil, uint64(text.Len()))
	return entries, append(head, text.Bytes()...), nil
}

// Float32 writes the tensor from v, row-major. Its type must be F32 or BF16, which rounds to nearest even.
func (w *Writer) Float32(name string, v []float32) error {
	e, err := w.claim(name)
	if err != nil {
		return err
	}
	size := e.dtype.Size()
	if e.dtype != F32 && e.dtype != BF16 {
		return fmt.Errorf("%s: tensor %q: cannot write float32 values as %s", w.path, name, e.dtype)
	}
	if int64(len(v)*size) != e.end-e.begin {
		return fmt.Errorf("%s: tensor %q: %d values for shape %v", w.path, name, len(v), e.shape)
	}
	const chunk = 1 << 16 // values
	for at := 0; at < len(v); at += chunk {
		part, b := v[at:min(at+chunk, len(v))], w.buf[:0]
		for _, f := range part {
			if e.dtype == F32 {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
			} else {
				b = binary.LittleEndian.AppendUint16(b, BF16FromFloat32(f))
			}
		}
		w.buf = b
		if _, err := w.file.WriteAt(b, w.data+e.begin+int64(at*size)); err != nil {
			return fmt.Errorf("write %s: tensor %q: %w", w.path, name, err)
		}
	}
	w.written[name] = true
	return nil
}

// Raw writes the tensor from its bytes, row-major and little-endian, of whatever type.
func (w *Writer) Raw(name string, b []byte) error {
	e, err := w.claim(name)
	if err != nil {
		return err
	}
	if int64(len(b)) != e.end-e.begin {
		return fmt.Errorf("%s: tensor %q: %d bytes for %s of shape %v", w.path, name, len(b), e.dtype, e.shape)
	}
	if _, err := w.file.WriteAt(b, w.data+e.begin); err != nil {
		return fmt.Errorf("write %s: tensor %q: %w", w.path, name, err)
	}
	w.written[name] = true
	return nil
}

func (w *Writer) claim(name string) (entry, error) {
	e, ok := w.entries[name]
	if !ok {
		return e, fmt.Errorf("%s: tensor %q was not announced", w.path, name)
	}
	if w.written[name] {
		return e, fmt.Errorf("%s: tensor %q is written already", w.path, name)
	}
	return e, nil
}

// Commit puts the file in place. A tensor that was not written is an error, and then no file appears.
func (w *Writer) Commit() error {
	defer w.file.Abort()
	for name := range w.entries {
		if !w.written[name] {
			return fmt.Errorf("%s: tensor %q was not written", w.path, name)
		}
	}
	return w.file.Commit()
}

// Abort drops the file. After Commit it does nothing, so it may be deferred.
func (w *Writer) Abort() { w.file.Abort() }
