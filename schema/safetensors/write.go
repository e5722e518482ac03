package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
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
	head    []byte
	entries []entry        // in the file's order
	index   map[string]int // into entries
	written []bool         // likewise
}

// Create starts a file with the tensors of specs, laid out by falling element size and then by name.
// The caller writes each tensor once, or all with Fill, and ends with Commit or Abort.
func Create(path string, specs []Spec, metadata map[string]string) (*Writer, error) {
	entries, head, err := layout(specs, metadata)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f, err := durable.Create(path)
	if err != nil {
		return nil, err
	}
	w := &Writer{path: path, file: f, head: head, entries: entries, index: make(map[string]int, len(entries)), written: make([]bool, len(entries))}
	for i, e := range entries {
		w.index[e.name] = i
	}
	if _, err := f.Write(head); err != nil {
		f.Abort()
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return w, nil
}

// layout returns the entries in order and the head of the file, padded so that the data is aligned to 64 bytes.
func layout(specs []Spec, metadata map[string]string) ([]entry, []byte, error) {
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
	var entries []entry
	seen := map[string]bool{metadataKey: true}
	var at int64
	for _, s := range specs {
		if s.DType.Size() == 0 {
			return nil, nil, fmt.Errorf("tensor %q: cannot write type %q", s.Name, s.DType)
		}
		if seen[s.Name] {
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
		seen[s.Name] = true
		entries = append(entries, e)
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
	i, err := w.claim(name)
	if err != nil {
		return err
	}
	e := w.entries[i]
	if err := w.checkFloats(e); err != nil {
		return err
	}
	if len(v) != e.values() {
		return fmt.Errorf("%s: tensor %q: %d values for shape %v", w.path, name, len(v), e.shape)
	}
	var c encoder
	for at := 0; at < len(v); at += chunk {
		if err := w.put(e, at, c.encode(v[at:min(at+chunk, len(v))], e.dtype)); err != nil {
			return err
		}
	}
	w.written[i] = true
	return nil
}

// Raw writes the tensor from its bytes, row-major and little-endian, of whatever type.
func (w *Writer) Raw(name string, b []byte) error {
	i, err := w.claim(name)
	if err != nil {
		return err
	}
	e := w.entries[i]
	if int64(len(b)) != e.end-e.begin {
		return fmt.Errorf("%s: tensor %q: %d bytes for %s of shape %v", w.path, name, len(b), e.dtype, e.shape)
	}
	if err := w.put(e, 0, b); err != nil {
		return err
	}
	w.written[i] = true
	return nil
}

// claim returns the index of a tensor that is still to be written.
func (w *Writer) claim(name string) (int, error) {
	i, ok := w.index[name]
	if !ok {
		return 0, fmt.Errorf("%s: tensor %q was not announced", w.path, name)
	}
	if w.written[i] {
		return 0, fmt.Errorf("%s: tensor %q is written already", w.path, name)
	}
	return i, nil
}

func (w *Writer) checkFloats(e entry) error {
	if e.dtype != F32 && e.dtype != BF16 {
		return fmt.Errorf("%s: tensor %q: cannot write float32 values as %s", w.path, e.name, e.dtype)
	}
	return nil
}

// put writes bytes of a tensor, those from element at on. It is safe from several goroutines.
func (w *Writer) put(e entry, at int, b []byte) error {
	if _, err := w.file.WriteAt(b, int64(len(w.head))+e.begin+int64(at*e.dtype.Size())); err != nil {
		return fmt.Errorf("write %s: tensor %q: %w", w.path, e.name, err)
	}
	return nil
}

// Commit puts the file in place. A tensor that was not written is an error, and then no file appears.
func (w *Writer) Commit() error {
	defer w.file.Abort()
	for i, e := range w.entries {
		if !w.written[i] {
			return fmt.Errorf("%s: tensor %q was not written", w.path, e.name)
		}
	}
	return w.file.Commit()
}

// Abort drops the file. After Commit it does nothing, so it may be deferred.
func (w *Writer) Abort() { w.file.Abort() }
