// Package verify holds a model directory and the code against golden vectors: right answers from independent
// implementations, in a folder whose form is stated beside the demo's golden data. Any file of it may be absent; its checks
// are then left out.
package verify

import (
	"fmt"
	"math"
	"strings"

	"penstock/kernels/kernelstest"
)

// Report is the outcome of every check that a folder's files allow.
type Report struct {
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
}

// Check is one comparison: max|a-b| / max|b| of a tensor, or, where the tolerance is 0, the share of entries that differ.
type Check struct {
	Name      string  `json:"name"`
	MaxRelErr float64 `json:"max_rel_err"`
	Tolerance float64 `json:"tolerance"`
	OK        bool    `json:"ok"`
	Detail    string  `json:"detail,omitempty"` // of a failed check
}

func (r *Report) add(name string, e, tolerance float64, detail string) {
	c := Check{Name: name, MaxRelErr: e, Tolerance: tolerance, OK: e <= tolerance}
	if math.IsNaN(e) || math.IsInf(e, 0) {
		c.MaxRelErr, c.OK = math.MaxFloat64, false // JSON has neither
	}
	if !c.OK {
		c.Detail = detail
	}
	r.OK = r.OK && c.OK
	r.Checks = append(r.Checks, c)
}

// Join adds another report's checks, their names behind a prefix.
func (r *Report) Join(prefix string, other Report) {
	for _, c := range other.Checks {
		c.Name = prefix + c.Name
		r.Checks = append(r.Checks, c)
	}
	r.OK = r.OK && other.OK
}

// near compares two tensors.
func (r *Report) near(name string, got, want []float32, tolerance float64) {
	detail := ""
	if len(got) != len(want) {
		detail = fmt.Sprintf("%d elements, want %d", len(got), len(want))
	}
	r.add(name, kernelstest.MaxRel(got, want), tolerance, detail)
}

// number compares two numbers.
func (r *Report) number(name string, got, want, tolerance float64) {
	e := math.Abs(got - want)
	if e > 0 && want != 0 {
		e /= math.Abs(want)
	}
	r.add(name, e, tolerance, fmt.Sprintf("%v, want %v", got, want))
}

// tally counts entries that must be equal.
type tally struct {
	total, wrong int
	first        string
}

func (t *tally) count(ok bool, format string, args ...any) {
	t.total++
	if ok {
		return
	}
	if t.wrong++; t.wrong == 1 {
		t.first = fmt.Sprintf(format, args...)
	}
}

// exact fails a check in which nothing was compared.
func (r *Report) exact(name string, t tally) {
	if t.total == 0 {
		r.add(name, 1, 0, "nothing to compare")
		return
	}
	r.add(name, float64(t.wrong)/float64(t.total), 0, fmt.Sprintf("%d of %d differ: %s", t.wrong, t.total, t.first))
}

// equal compares two lists entry by entry.
func equal[T comparable](r *Report, name string, got, want []T) {
	var t tally
	t.count(len(got) == len(want), "%d entries, want %d", len(got), len(want))
	for i := range min(len(got), len(want)) {
		t.count(got[i] == want[i], "entry %d is %v, want %v", i, got[i], want[i])
	}
	r.exact(name, t)
}

// String lists the checks, one a line, the failed ones marked.
func (r Report) String() string {
	var b strings.Builder
	for _, c := range r.Checks {
		mark := "ok  "
		if !c.OK {
			mark = "FAIL"
		}
		fmt.Fprintf(&b, "%s %-44s %9.2e  limit %.0e  %s\n", mark, c.Name, c.MaxRelErr, c.Tolerance, c.Detail)
	}
	return b.String()
}
