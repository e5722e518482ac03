package schema

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
)

// codec is how values of one Go type travel.
type codec struct {
	encode func(writer, reflect.Value) error
	decode func(*reader, reflect.Value) error
}

type writer struct{ *msgpack.Encoder }

var errUTF8 = errors.New("text is not UTF-8")

// codecOf knows text, booleans, numbers, bytes, lists of these and maps from text to them. It knows no arrays, pointers or
// interfaces: what a record may hold is small by its type.
func codecOf(t reflect.Type) (codec, error) {
	switch t.Kind() {
	case reflect.String:
		return codec{encodeString, func(r *reader, v reflect.Value) error {
			s, err := r.string()
			v.SetString(s)
			return err
		}}, nil
	case reflect.Bool:
		return codec{func(w writer, v reflect.Value) error { return w.EncodeBool(v.Bool()) }, func(r *reader, v reflect.Value) error {
			b, err := r.bool()
			v.SetBool(b)
			return err
		}}, nil
	case reflect.Uint32, reflect.Uint64:
		return codec{func(w writer, v reflect.Value) error { return w.EncodeUint(v.Uint()) }, func(r *reader, v reflect.Value) error {
			u, err := r.uint(t.Bits())
			v.SetUint(u)
			return err
		}}, nil
	case reflect.Int32, reflect.Int64:
		return codec{func(w writer, v reflect.Value) error { return w.EncodeInt(v.Int()) }, func(r *reader, v reflect.Value) error {
			i, err := r.int(t.Bits())
			v.SetInt(i)
			return err
		}}, nil
	case reflect.Float32:
		return codec{func(w writer, v reflect.Value) error { return w.EncodeFloat32(float32(v.Float())) }, func(r *reader, v reflect.Value) error {
			f, err := r.float32()
			v.SetFloat(float64(f))
			return err
		}}, nil
	case reflect.Float64:
		return codec{func(w writer, v reflect.Value) error { return w.EncodeFloat64(v.Float()) }, func(r *reader, v reflect.Value) error {
			f, err := r.float64()
			v.SetFloat(f)
			return err
		}}, nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return codec{func(w writer, v reflect.Value) error { return w.EncodeBytes(append([]byte{}, v.Bytes()...)) }, func(r *reader, v reflect.Value) error {
				b, err := r.bytes()
				v.SetBytes(b)
				return err
			}}, nil
		}
		return listCodec(t)
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return mapCodec(t)
		}
	}
	return codec{}, fmt.Errorf("type %s cannot travel", t)
}

func encodeString(w writer, v reflect.Value) error {
	if !utf8.ValidString(v.String()) {
		return errUTF8
	}
	return w.EncodeString(v.String())
}

func listCodec(t reflect.Type) (codec, error) {
	elem, err := codecOf(t.Elem())
	return codec{
		encode: func(w writer, v reflect.Value) error {
			if err := w.EncodeArrayLen(v.Len()); err != nil {
				return err
			}
			for i := range v.Len() {
				if err := elem.encode(w, v.Index(i)); err != nil {
					return fmt.Errorf("element %d: %w", i, err)
				}
			}
			return nil
		},
		decode: func(r *reader, v reflect.Value) error {
			n, err := r.list()
			if err != nil || n == 0 {
				return err
			}
			list := reflect.MakeSlice(t, n, n)
			for i := range n {
				if err := elem.decode(r, list.Index(i)); err != nil {
					return fmt.Errorf("element %d: %w", i, err)
				}
			}
			v.Set(list)
			return nil
		},
	}, err
}

func mapCodec(t reflect.Type) (codec, error) {
	elem, err := codecOf(t.Elem())
	return codec{
		encode: func(w writer, v reflect.Value) error {
			if err := w.EncodeMapLen(v.Len()); err != nil {
				return err
			}
			keys := v.MapKeys()
			slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
			for _, k := range keys {
				if err := errors.Join(encodeString(w, k), elem.encode(w, v.MapIndex(k))); err != nil {
					return fmt.Errorf("key %q: %w", k, err)
				}
			}
			return nil
		},
		decode: func(r *reader, v reflect.Value) error {
			n, err := r.dict()
			if err != nil || n == 0 {
				return err
			}
			m := reflect.MakeMapWithSize(t, n)
			for range n {
				k, err := r.string()
				if err != nil {
					return err
				}
				key, val := reflect.ValueOf(k), reflect.New(t.Elem()).Elem()
				if m.MapIndex(key).IsValid() {
					return fmt.Errorf("key %q stands twice", k)
				}
				if err := elem.decode(r, val); err != nil {
					return fmt.Errorf("key %q: %w", k, err)
				}
				m.SetMapIndex(key, val)
			}
			v.Set(m)
			return nil
		},
	}, err
}
