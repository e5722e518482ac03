package tensorboard

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The reader here shares nothing with the writer: a bitwise checksum, and its own walk over the wire format.

func crc32c(b []byte) uint32 {
	c := ^uint32(0)
	for _, x := range b {
		c ^= uint32(x)
		for range 8 {
			if c&1 == 1 {
				c = c>>1 ^ 0x82f63b78
			} else {
				c >>= 1
			}
		}
	}
	return ^c
}

func number(b []byte) (n uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	return n
}

func unmasked(b []byte) uint32 {
	rot := uint32(number(b)) - 0xa282ead8
	return rot>>17 | rot<<15
}

type field struct {
	number, kind int
	value        uint64
	bytes        []byte
}

func fields(t *testing.T, b []byte) []field {
	t.Helper()
	varint := func() (v uint64) {
		for shift := 0; ; shift += 7 {
			v |= uint64(b[0]&0x7f) << shift
			more := b[0]&0x80 != 0
			if b = b[1:]; !more {
				return v
			}
		}
	}
	var out []field
	for len(b) > 0 {
		key := varint()
		f := field{number: int(key >> 3), kind: int(key & 7)}
		take := func(n int) []byte { x := b[:n]; b = b[n:]; return x }
		switch f.kind {
		case 0:
			f.value = varint()
		case 1:
			f.value = number(take(8))
		case 2:
			f.bytes = take(int(varint()))
		case 5:
			f.value = number(take(4))
		default:
			t.Fatalf("wire type %d", f.kind)
		}
		out = append(out, f)
	}
	return out
}

func records(t *testing.T, b []byte) (out [][]byte) {
	t.Helper()
	for len(b) > 0 {
		n := number(b[:8])
		if got, want := unmasked(b[8:12]), crc32c(b[:8]); got != want {
			t.Fatalf("checksum of a length: %08x, want %08x", got, want)
		}
		data := b[12 : 12+n]
		if got, want := unmasked(b[12+n:16+n]), crc32c(data); got != want {
			t.Fatalf("checksum of data: %08x, want %08x", got, want)
		}
		out, b = append(out, data), b[16+n:]
	}
	return out
}

func TestEventsAreRead(t *testing.T) {
	if crc32c([]byte("123456789")) != 0xe3069283 {
		t.Fatal("the reader's own checksum is wrong")
	}
	dir := filepath.Join(t.TempDir(), "events")
	at := time.Unix(1700000000, 250000000)
	w, err := Create(dir, at)
	if err != nil {
		t.Fatal(err)
	}
	for step := int64(0); step < 300; step += 150 {
		if err := w.Add(at, step, Scalar{"loss", 0.5 + float64(step)}, Scalar{"lr", 1e-3}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	// How every event file of this version begins.
	if head := []byte{0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22, 0x09}; !bytes.HasPrefix(b, head) {
		t.Errorf("the file begins with % x", b[:13])
	}
	recs := records(t, b)
	if len(recs) != 3 {
		t.Fatalf("%d records", len(recs))
	}
	head := fields(t, recs[0])
	if head[0].number != 1 || math.Float64frombits(head[0].value) != 1700000000.25 || head[1].number != 3 || string(head[1].bytes) != "brain.Event:2" {
		t.Errorf("the first record is %+v", head)
	}
	event := fields(t, recs[2])
	if len(event) != 3 || event[1].number != 2 || event[1].value != 150 || event[2].number != 5 {
		t.Fatalf("an event is %+v", event)
	}
	values := fields(t, event[2].bytes)
	if len(values) != 2 {
		t.Fatalf("%d values", len(values))
	}
	for i, want := range []Scalar{{"loss", 150.5}, {"lr", 1e-3}} {
		v := fields(t, values[i].bytes)
		if string(v[0].bytes) != want.Tag || math.Float32frombits(uint32(v[1].value)) != float32(want.Value) {
			t.Errorf("value %d is %+v, want %+v", i, v, want)
		}
	}
}

func TestFolderThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(filepath.Join(file, "events"), time.Now()); err == nil {
		t.Error("a folder below a file")
	}
}
