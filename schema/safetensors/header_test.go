package safetensors

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// raw builds a file from its header's text and data.
func raw(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func TestBadFiles(t *testing.T) {
	long := binary.LittleEndian.AppendUint64(nil, 1<<40)
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "0 bytes are too few"},
		{"short", []byte{1, 2, 3}, "3 bytes are too few"},
		{"length", append(long, '{', '}'), "header length 1099511627776 is over"},
		{"torn header", raw(`{"a":{"dtype"`, 0)[:12], "header ends at offset 21, file at 12: torn file"},
		{"not JSON", raw(`hello`, 0), "not a JSON object"},
		{"torn JSON", raw(`{"a":{"dtype":"F32"`, 0), "header: "},
		{"array", raw(`[]`, 0), "not a JSON object"},
		{"text after", raw(`{} x`, 0), "text after the JSON object"},
		{"twice", raw(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), `tensor "a" stands twice`},
		{"no dtype", raw(`{"a":{"shape":[1],"data_offsets":[0,1]}}`, 1), `tensor "a": needs dtype, shape`},
		{"no shape", raw(`{"a":{"dtype":"U8","data_offsets":[0,1]}}`, 1), `tensor "a": needs dtype, shape`},
		{"one offset", raw(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}}`, 1), `tensor "a": needs`},
		{"fraction", raw(`{"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}}`, 1), `tensor "a": json`},
		{"negative size", raw(`{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}}`, 0), `tensor "a": shape [-1] has a negative size`},
		{"huge", raw(`{"a":{"dtype":"F64","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, 0), `is too large`},
		{"negative offset", raw(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}}`, 0), `data_offsets [-1, 0] are no range`},
		{"backwards", raw(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}`, 1), `data_offsets [1, 0] are no range`},
		{"past the end", raw(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 7), `tensor "a" ends at data offset 8, the file at 7: torn file`},
		{"gap", raw(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`, 3), `tensor "b" begins at data offset 2: gap after 1`},
		{"overlap", raw(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3), `tensor "b" begins at data offset 1, inside`},
		{"size", raw(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4), `tensor "a" at data offset 0: shape [2] of F32 takes 8 bytes, its data_offsets give 4`},
		{"rest", raw(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 2), "the tensors end at data offset 1, the file at 2"},
		{"metadata", raw(`{"__metadata__":{"a":1}}`, 0), "__metadata__: json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bad.safetensors")
			if err := os.WriteFile(path, c.b, 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Open(path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path+": ") {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Open("none.safetensors"); err == nil || !strings.Contains(err.Error(), "none.safetensors: no such file") {
		t.Errorf("no file: %v", err)
	}
}

// A type that this package does not know spoils only its own tensor.
func TestUnknownType(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new.safetensors")
	head := `{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},"c":{"dtype":"F32","shape":[0,5],"data_offsets":[2,2]}}`
	if err := os.WriteFile(path, raw(head, 3), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, err := f.Tensor("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Float32(); err == nil || !strings.Contains(err.Error(), `tensor "a" is F4`) {
		t.Errorf("%v", err)
	}
	if b, err := f.Tensor("b"); err != nil || len(b.Bytes) != 1 {
		t.Errorf("%v, %v", b, err)
	}
	if c, err := f.Tensor("c"); err != nil || c.Len() != 0 {
		t.Errorf("empty tensor: %v, %v", c, err)
	}
}

// Every header that is taken describes ranges within the data that do not overlap and match their shapes.
func FuzzHeader(f *testing.F) {
	f.Add(raw(`{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]}}`, 10))
	f.Add(raw(`{}`, 0))
	f.Add(raw(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{}}`, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b, int64(len(b)))
		if err != nil {
			return
		}
		var at int64
		names := map[string]bool{}
		for _, e := range h.entries {
			if e.begin != at || e.end < e.begin || names[e.name] {
				t.Fatalf("entry %+v after %d", e, at)
			}
			if s := e.dtype.Size(); s > 0 && int64(s*product(e.shape)) != e.end-e.begin {
				t.Fatalf("entry %+v has the wrong size", e)
			}
			at, names[e.name] = e.end, true
		}
		if h.data+at != int64(len(b)) {
			t.Fatalf("data from %d, %d bytes, file of %d", h.data, at, len(b))
		}
	})
}
