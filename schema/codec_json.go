package schema

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"
)

var (
	hexKeys  = []string{"inc", "sum", "hash"} // random or hashed 64 bits: JSON numbers would lose some
	timeKeys = []string{"at", "sent"}         // Unix nanoseconds
)

// ToJSON decodes a record of any kind to one line of JSON for people: kind first, fields in the order of the struct, random
// and hashed ids in hexadecimal, times in UTC.
func ToJSON(b []byte) ([]byte, error) {
	rec, err := DecodeAny(b)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `{"kind":%q`, rec.Kind())
	v := reflect.ValueOf(rec)
	for _, f := range byType[v.Type()].fields {
		text, err := json.Marshal(readable(f.key, v.FieldByIndex(f.index)))
		if err != nil {
			return nil, fmt.Errorf("%s to JSON: field %q: %w", rec.Kind(), f.key, err)
		}
		fmt.Fprintf(&out, `,%q:%s`, f.key, text)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

func readable(key string, v reflect.Value) any {
	switch v.Kind() {
	case reflect.Uint64:
		if slices.Contains(hexKeys, key) {
			return fmt.Sprintf("%016x", v.Uint())
		}
	case reflect.Int64:
		if slices.Contains(timeKeys, key) {
			return time.Unix(0, v.Int()).UTC().Format(time.RFC3339Nano)
		}
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Sprint(f)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return hex.EncodeToString(v.Bytes())
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = readable("", v.Index(i))
		}
		return list
	case reflect.Map:
		m := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			m[it.Key().String()] = readable("", it.Value())
		}
		return m
	}
	return v.Interface()
}
