package schema

import (
	"bytes"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// pairs encodes keys and values as one map, in order and without any check.
func pairs(t *testing.T, kv ...any) []byte {
	t.Helper()
	var buf bytes.Buffer
	e := msgpack.NewEncoder(&buf)
	e.UseCompactInts(true)
	if err := e.EncodeMapLen(len(kv) / 2); err != nil {
		t.Fatal(err)
	}
	for _, v := range kv {
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	return buf.Bytes()
}

func TestDecodeIsStrict(t *testing.T) {
	good := []any{"kind", "gen", "v", 1, "run", "r", "gen", 2, "start", 3, "by", "x"}
	with := func(i int, v any) []byte {
		kv := append([]any{}, good...)
		kv[i] = v
		return pairs(t, kv...)
	}
	valid := pairs(t, good...)
	if got, err := Decode[Gen](valid); err != nil || got != (Gen{"r", 2, 3, "x"}) {
		t.Fatalf("%+v, %v", got, err)
	}
	swapped := pairs(t, "kind", "gen", "v", 1, "by", "x", "start", 3, "gen", 2, "run", "r")
	if got, err := Decode[Gen](swapped); err != nil || got != (Gen{"r", 2, 3, "x"}) {
		t.Fatalf("another order: %+v, %v", got, err)
	}
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "record ends where a map should be"},
		{"no map", []byte{0xc0}, "want a map, found msgpack code 0xc0"},
		{"wrong kind", with(1, "root"), `is a record of kind "root"`},
		{"wrong version", with(3, 2), `field "v": version 2, this program speaks 1`},
		{"no kind", pairs(t, good[2:]...), `does not begin with the fields "kind" and "v"`},
		{"no version", pairs(t, "kind", "gen", "run", "r"), `kind "gen": the field after "kind" is not "v"`},
		{"unknown field", pairs(t, append(good, "extra", 1)...), `unknown field "extra"`},
		{"double field", pairs(t, append(good, "gen", 2)...), `field "gen" stands twice`},
		{"double kind", pairs(t, append(good, "kind", "gen")...), `field "kind" stands twice`},
		{"missing fields", pairs(t, good[:8]...), "missing field start, by"},
		{"trailing bytes", append(bytes.Clone(valid), 0), "1 bytes after the record"},
		{"torn", valid[:len(valid)-1], `field "by": length 1 is past the end of the record`},
		{"too large", append(bytes.Clone(valid), make([]byte, MaxRecord)...), "record is too large"},
		{"null", with(7, nil), `field "gen": want an integer, found msgpack code 0xc0`},
		{"text for a number", with(7, "2"), `field "gen": want an integer`},
		{"float for a number", with(7, 2.0), `field "gen": want an integer`},
		{"number for text", with(5, 7), `field "run": want text`},
		{"bytes for text", with(5, []byte("r")), `field "run": want text`},
		{"negative", with(7, -1), `field "gen": integer does not fit 32 bits without sign`},
		{"too wide", with(7, int64(1)<<32), `field "gen": integer does not fit 32 bits without sign`},
		{"not UTF-8", with(5, "\xff"), `field "run": text is not UTF-8`},
		{"false length", []byte{0xdf, 0xff, 0xff, 0xff, 0xff}, "length"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode[Gen](c.b)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "decode gen: ") {
				t.Errorf("error %q, want %q in it", err, c.want)
			}
			if _, err := DecodeAny(c.b); err == nil {
				t.Error("DecodeAny takes it")
			}
		})
	}
	if _, err := DecodeAny(with(1, "gems")); err == nil || !strings.Contains(err.Error(), `unknown kind "gems"`) {
		t.Errorf("unknown kind: %v", err)
	}
	if _, err := Decode[*Gen](valid); err == nil {
		t.Error("decodes into a pointer")
	}
	if _, err := Encode((*Gen)(nil)); err == nil {
		t.Error("encodes a nil pointer")
	}
	if _, err := Encode(Gen{Run: "\xff"}); err == nil {
		t.Error("encodes text that is not UTF-8")
	}
}

func TestSignedRange(t *testing.T) {
	pool := func(device any) []byte {
		return pairs(t, "kind", "pool", "v", 1, "pool", "p", "inc", 1, "memory", "shm", "device", device, "slots", 2,
			"slot_bytes", 64, "element", "float32", "socket", "s", "handle", []byte{})
	}
	for device, ok := range map[int64]bool{-1: true, -1 << 31: true, -1<<31 - 1: false, 1<<31 - 1: true, 1 << 31: false, -1 << 63: false} {
		got, err := Decode[PoolInfo](pool(device))
		if (err == nil) != ok || ok && int64(got.Device) != device {
			t.Errorf("device %d: %d, %v", device, got.Device, err)
		}
	}
}

// What decodes encodes, and then to the same record.
func FuzzDecodeAny(f *testing.F) {
	for _, rec := range golden {
		b, err := Encode(rec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := DecodeAny(b)
		if err != nil {
			return
		}
		first, err := Encode(rec)
		if err != nil {
			t.Fatalf("%+v decodes but does not encode: %v", rec, err)
		}
		back, err := DecodeAny(first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Encode(back)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%x encodes to %x, then %x: %v", b, first, second, err)
		}
		if _, err := ToJSON(b); err != nil {
			t.Fatal(err)
		}
	})
}
