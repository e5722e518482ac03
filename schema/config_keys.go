package schema

import (
	"fmt"
	"reflect"
	"strings"
)

// fieldOf finds the field of the struct v with a dotted key.
func fieldOf(v reflect.Value, key string) (reflect.Value, bool) {
	name, rest, nested := strings.Cut(key, ".")
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("yaml") != name {
			continue
		}
		f := v.Field(i)
		if !nested {
			return f, true
		}
		if f.Kind() == reflect.Struct {
			return fieldOf(f, rest)
		}
	}
	return reflect.Value{}, false
}

// leaf is one key that holds a value.
type leaf struct {
	key   string
	field reflect.StructField
	value reflect.Value
}

// leaves lists every key of the configuration in the order of its structs.
func leaves(v reflect.Value, prefix string) []leaf {
	var out []leaf
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := join(prefix, f.Tag.Get("yaml"))
		if f.Type.Kind() == reflect.Struct {
			out = append(out, leaves(v.Field(i), key)...)
			continue
		}
		out = append(out, leaf{key, f, v.Field(i)})
	}
	return out
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

func keysUnder(prefix string) []string {
	var out []string
	for _, l := range leaves(reflect.ValueOf(Config{}), "") {
		if prefix == "" || strings.HasPrefix(l.key, prefix+".") {
			out = append(out, l.key)
		}
	}
	return out
}

// suggest names the known key that is nearest to a wrong one: the fewest edits over the whole key, or over its last part
// if only the group is wrong or missing. More than a third of what is compared is too far.
func suggest(wrong string) string {
	_, last := cutLast(wrong)
	best, fewest := "", len(wrong)
	far := func(a, b string) int {
		if d := edits(a, b); d <= (len(b)+1)/3 {
			return d
		}
		return len(wrong)
	}
	for _, k := range keysUnder("") {
		group, name := cutLast(k)
		for candidate, d := range map[string]int{k: min(far(wrong, k), far(last, name)+1), group: far(wrong, group)} {
			if candidate != "" && (d < fewest || d == fewest && best != "" && candidate < best) {
				best, fewest = candidate, d
			}
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

func cutLast(key string) (group, name string) {
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		return key[:i], key[i+1:]
	}
	return "", key
}

// edits is the Levenshtein distance: insertions, deletions and substitutions of bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(above+1, row[j]+1, diagonal+cost)
			diagonal = above
		}
	}
	return row[len(b)]
}
