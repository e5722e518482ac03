package schema

import (
	"bytes"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// reader reads values without the decoder's leniency: no nil for zero, no wrap-around of integers, no other type, and no
// length that the record's own bytes cannot hold.
type reader struct {
	kind    string
	d       *msgpack.Decoder
	b       bytes.Reader
	scratch []byte
}

// open reads a record's head and returns the number of fields that follow it. The caller closes the reader.
func open(b []byte) (*reader, int, error) {
	if len(b) > MaxRecord {
		return nil, 0, fmt.Errorf("%w: %d bytes, at most %d may travel", ErrTooLarge, len(b), MaxRecord)
	}
	r := &reader{d: msgpack.GetDecoder(), scratch: make([]byte, 64)}
	r.b.Reset(b)
	r.d.Reset(&r.b)
	n, err := r.head()
	if err != nil {
		r.close()
		return nil, 0, err
	}
	return r, n, nil
}

func (r *reader) close() { msgpack.PutDecoder(r.d) }

func (r *reader) head() (int, error) {
	n, err := r.dict()
	if err != nil {
		return 0, err
	}
	if key, err := r.string(); err != nil || key != kindKey || n < 2 {
		return 0, fmt.Errorf("does not begin with the fields %q and %q", kindKey, versionKey)
	}
	if r.kind, err = r.string(); err != nil {
		return 0, fmt.Errorf("field %q: %w", kindKey, err)
	}
	if key, err := r.string(); err != nil || key != versionKey {
		return 0, fmt.Errorf("kind %q: the field after %q is not %q", r.kind, kindKey, versionKey)
	}
	v, err := r.uint(64)
	if err != nil {
		return 0, fmt.Errorf("kind %q: field %q: %w", r.kind, versionKey, err)
	}
	if v != Version {
		return 0, fmt.Errorf("kind %q: field %q: version %d, this program speaks %d", r.kind, versionKey, v, Version)
	}
	return n - 2, nil
}

func (r *reader) left() int { return r.b.Len() }

// want peeks at the next value's code and requires ok of it.
func (r *reader) want(what string, ok func(byte) bool) (byte, error) {
	c, err := r.d.PeekCode()
	if err != nil {
		return 0, fmt.Errorf("record ends where %s should be", what)
	}
	if !ok(c) {
		return c, fmt.Errorf("want %s, found msgpack code 0x%02x", what, c)
	}
	return c, nil
}

// length checks a length that was just read: each of n things takes at least one byte of the rest.
func (r *reader) length(n int, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	if n < 0 || n > r.left() {
		return 0, fmt.Errorf("length %d is past the end of the record", n)
	}
	return n, nil
}

// raw reads text or bytes; they are good until the next call.
func (r *reader) raw(what string, ok func(byte) bool) ([]byte, error) {
	if _, err := r.want(what, ok); err != nil {
		return nil, err
	}
	n, err := r.length(r.d.DecodeBytesLen())
	if err != nil {
		return nil, err
	}
	if n > len(r.scratch) {
		r.scratch = make([]byte, n)
	}
	return r.scratch[:n], r.d.ReadFull(r.scratch[:n])
}

// text is raw for UTF-8.
func (r *reader) text() ([]byte, error) {
	b, err := r.raw("text", msgpcode.IsString)
	if err == nil && !utf8.Valid(b) {
		err = errUTF8
	}
	return b, err
}

func (r *reader) string() (string, error) {
	b, err := r.text()
	return string(b), err
}

// bytes returns nil for no bytes.
func (r *reader) bytes() ([]byte, error) {
	b, err := r.raw("bytes", msgpcode.IsBin)
	return append([]byte(nil), b...), err
}

func (r *reader) list() (int, error) {
	_, err := r.want("a list", func(c byte) bool {
		return msgpcode.IsFixedArray(c) || c == msgpcode.Array16 || c == msgpcode.Array32
	})
	if err != nil {
		return 0, err
	}
	return r.length(r.d.DecodeArrayLen())
}

func (r *reader) dict() (int, error) {
	_, err := r.want("a map", func(c byte) bool {
		return msgpcode.IsFixedMap(c) || c == msgpcode.Map16 || c == msgpcode.Map32
	})
	if err != nil {
		return 0, err
	}
	return r.length(r.d.DecodeMapLen())
}

func (r *reader) bool() (bool, error) {
	if _, err := r.want("true or false", func(c byte) bool { return c == msgpcode.True || c == msgpcode.False }); err != nil {
		return false, err
	}
	return r.d.DecodeBool()
}

func (r *reader) float32() (float32, error) {
	if _, err := r.want("a 32-bit float", func(c byte) bool { return c == msgpcode.Float }); err != nil {
		return 0, err
	}
	return r.d.DecodeFloat32()
}

func (r *reader) float64() (float64, error) {
	if _, err := r.want("a 64-bit float", func(c byte) bool { return c == msgpcode.Double }); err != nil {
		return 0, err
	}
	return r.d.DecodeFloat64()
}

// integer returns the magnitude and the sign of the next value.
func (r *reader) integer() (uint64, bool, error) {
	c, err := r.want("an integer", func(c byte) bool {
		return msgpcode.IsFixedNum(c) || c >= msgpcode.Uint8 && c <= msgpcode.Int64
	})
	if err != nil {
		return 0, false, err
	}
	if c <= msgpcode.PosFixedNumHigh || c >= msgpcode.Uint8 && c <= msgpcode.Uint64 {
		u, err := r.d.DecodeUint64()
		return u, false, err
	}
	i, err := r.d.DecodeInt64()
	if i < 0 {
		return -uint64(i), true, err
	}
	return uint64(i), false, err
}

func (r *reader) uint(bits int) (uint64, error) {
	u, neg, err := r.integer()
	if err == nil && (neg || bits < 64 && u>>bits != 0) {
		err = fmt.Errorf("integer does not fit %d bits without sign", bits)
	}
	return u, err
}

func (r *reader) int(bits int) (int64, error) {
	u, neg, err := r.integer()
	limit := uint64(math.MaxInt64) >> (64 - bits)
	if neg {
		limit++
	}
	if err == nil && u > limit {
		err = fmt.Errorf("integer does not fit %d bits with sign", bits)
	}
	if neg {
		return int64(-u), err
	}
	return int64(u), err
}
