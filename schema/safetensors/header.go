package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"
)

const (
	lengthBytes = 8
	maxHeader   = 100 << 20 // the reference implementation's limit
	metadataKey = "__metadata__"
)

type entry struct {
	name       string
	dtype      DType
	shape      []int
	begin, end int64 // within the data section
}

// values is the number of elements.
func (e entry) values() int { return product(e.shape) }

type header struct {
	entries  []entry // in file order
	metadata map[string]string
	data     int64 // offset of the data section in the file
}

// parseHeader reads and checks the header of a file that holds b (at least the header) and is size bytes long.
// Errors name the tensor and the offset; the caller adds the file.
func parseHeader(b []byte, size int64) (header, error) {
	var h header
	if size < lengthBytes || len(b) < lengthBytes {
		return h, fmt.Errorf("%d bytes are too few for a safetensors file: empty or torn", size)
	}
	n := binary.LittleEndian.Uint64(b)
	if n > maxHeader {
		return h, fmt.Errorf("offset 0: header length %d is over %d: not a safetensors file", n, maxHeader)
	}
	h.data = lengthBytes + int64(n)
	if h.data > size || h.data > int64(len(b)) {
		return h, fmt.Errorf("header ends at offset %d, file at %d: torn file", h.data, size)
	}
	if err := h.decode(b[lengthBytes:h.data]); err != nil {
		return h, fmt.Errorf("header: %w", err)
	}
	return h, h.check(size - h.data)
}

func (h *header) decode(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(errors.New("not a JSON object"), err)
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		name := t.(string) // a JSON object's key
		if seen[name] {
			return fmt.Errorf("tensor %q stands twice", name)
		}
		seen[name] = true
		if name == metadataKey {
			if err := d.Decode(&h.metadata); err != nil {
				return fmt.Errorf("%s: %w", metadataKey, err)
			}
			continue
		}
		var e struct {
			DType   *DType   `json:"dtype"`
			Shape   *[]int   `json:"shape"`
			Offsets *[]int64 `json:"data_offsets"`
		}
		if err := d.Decode(&e); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		if e.DType == nil || e.Shape == nil || e.Offsets == nil || len(*e.Offsets) != 2 {
			return fmt.Errorf("tensor %q: needs dtype, shape and two data_offsets", name)
		}
		h.entries = append(h.entries, entry{name, *e.DType, *e.Shape, (*e.Offsets)[0], (*e.Offsets)[1]})
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text after the JSON object")
	}
	return nil
}

// check sorts the entries by offset and requires that they fill the data section exactly.
func (h *header) check(data int64) error {
	slices.SortStableFunc(h.entries, func(a, b entry) int {
		switch {
		case a.begin != b.begin:
			return cmp64(a.begin, b.begin)
		case a.end != b.end:
			return cmp64(a.end, b.end)
		}
		return strings.Compare(a.name, b.name)
	})
	var at int64
	for _, e := range h.entries {
		if e.begin < 0 || e.end < e.begin {
			return fmt.Errorf("tensor %q: data_offsets [%d, %d] are no range", e.name, e.begin, e.end)
		}
		if e.end > data {
			return fmt.Errorf("tensor %q ends at data offset %d, the file at %d: torn file", e.name, e.end, data)
		}
		if e.begin < at {
			return fmt.Errorf("tensor %q begins at data offset %d, inside the tensor before it, which ends at %d", e.name, e.begin, at)
		}
		if e.begin > at {
			return fmt.Errorf("tensor %q begins at data offset %d: gap after %d", e.name, e.begin, at)
		}
		if err := e.checkSize(); err != nil {
			return err
		}
		at = e.end
	}
	if at != data {
		return fmt.Errorf("the tensors end at data offset %d, the file at %d", at, data)
	}
	return nil
}

// checkSize requires that shape and type give the length. Of an unknown type only the shape is checked.
func (e entry) checkSize() error {
	n := uint64(max(e.dtype.Size(), 1))
	for _, d := range e.shape {
		if d < 0 {
			return fmt.Errorf("tensor %q: shape %v has a negative size", e.name, e.shape)
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > 1<<62 {
			return fmt.Errorf("tensor %q: shape %v is too large", e.name, e.shape)
		}
		n = lo
	}
	if e.dtype.Size() > 0 && n != uint64(e.end-e.begin) {
		return fmt.Errorf("tensor %q at data offset %d: shape %v of %s takes %d bytes, its data_offsets give %d", e.name, e.begin, e.shape, e.dtype, n, e.end-e.begin)
	}
	return nil
}

func cmp64(a, b int64) int {
	if a < b {
		return -1
	}
	return 1
}
