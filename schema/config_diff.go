package schema

import (
	"fmt"
	"path/filepath"
	"reflect"
)

// Diff lists the keys that alter the arithmetic of a run and differ between a and b, as "train.lr: 0.001 → 0.002".
// Paths are equal if they lead to the same place.
func Diff(a, b Config) []string {
	var out []string
	la, lb := leaves(reflect.ValueOf(a), ""), leaves(reflect.ValueOf(b), "")
	for i, l := range la {
		kind := l.field.Tag.Get("arith")
		if kind == "" {
			continue
		}
		x, y := show(l.value, kind), show(lb[i].value, kind)
		if x != y {
			out = append(out, fmt.Sprintf("%s: %s → %s", l.key, x, y))
		}
	}
	return out
}

func show(v reflect.Value, kind string) string {
	if kind == "path" {
		if v.Kind() == reflect.String {
			return place(v.String())
		}
		places := make([]string, v.Len())
		for i := range places {
			places[i] = place(v.Index(i).String())
		}
		return fmt.Sprint(places)
	}
	return fmt.Sprint(v.Interface())
}

// place is the absolute path without symbolic links, or as much of that as can be found out.
func place(path string) string {
	if path == "" {
		return ""
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path
}
