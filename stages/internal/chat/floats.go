package chat

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"
)

// The template engine prints numbers with a fraction as Go does, and takes whole ones of 64 bits; chat templates mean them as
// Python prints them. So where the two differ they pass through the engine as strings between two characters for private use, and are put right in
// what it rendered.
const floatOpen, floatClose = "\uf8f0", "\uf8f1"

var floatMark = regexp.MustCompile(`"` + floatOpen + `([-+.0-9e]+)` + floatClose + `"|` + floatOpen + `([-+.0-9e]+)` + floatClose)

func floatValue(f float64) jinja.Value {
	if pythonFloat(f) == strconv.FormatFloat(f, 'g', -1, 64) {
		return jinja.NewFloat(f)
	}
	return jinja.NewString(floatOpen + pythonFloat(f) + floatClose)
}

// restoreFloats puts the numbers right in a rendered text.
func restoreFloats(text string) string {
	if !strings.Contains(text, floatOpen) {
		return text
	}
	return floatMark.ReplaceAllString(text, "$1$2")
}

// pythonFloat is how Python prints a float: the shortest digits that come back, with an exponent below 1e-4 and from 1e16 on.
func pythonFloat(f float64) string {
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
