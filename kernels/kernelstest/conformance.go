package kernelstest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"penstock/kernels"
)

// Case is one op at one set of shapes.
type Case struct {
	Op, Shape string
	Run       func(c *Call, dev kernels.Device)
}

// Conformance runs every op of dev at ragged, tiny and empty shapes and compares it with kernels.Ref at the tolerances
// of kernels.OpList, in the device's half type. Outputs start poisoned and lie between guard rows; each op runs twice and must repeat itself bit
// by bit.
func Conformance(t *testing.T, dev kernels.Device) {
	t.Helper()
	ConformanceScaled(t, dev, 1)
}

// ConformanceScaled is Conformance with every tolerance times scale, for devices of less precision than float32.
func ConformanceScaled(t *testing.T, dev kernels.Device, scale float64) {
	t.Helper()
	cases := slices.Concat(moverCases(), linearCases(), normCases(), attentionCases(), lossCases(), optimizerCases())
	for _, op := range kernels.OpList {
		t.Run(op.Name, func(t *testing.T) {
			ran := 0
			for _, c := range cases {
				if c.Op == op.Name {
					ran++
					for _, p := range compare(dev, c, op.Tolerance*scale, op.Rounded*scale) {
						t.Error(p)
					}
				}
			}
			if ran == 0 {
				t.Fatalf("no case for op %s", op.Name)
			}
		})
	}
}

// compare returns what is wrong with dev's result of a case. Outputs of bfloat16 may differ by `rounded`.
func compare(dev kernels.Device, c Case, tolerance, rounded float64) (problems []string) {
	say := func(format string, a ...any) {
		problems = append(problems, fmt.Sprintf("%s %s: ", c.Op, c.Shape)+fmt.Sprintf(format, a...))
	}
	run := func(d kernels.Device) map[string]result {
		call := NewCall(d)
		c.Run(call, d)
		got, err := call.results()
		if err != nil {
			say("%v", err)
		}
		return got
	}
	want, got, again := run(&kernels.Ref{}), run(dev), run(dev)
	if len(want) == 0 {
		say("the case keeps no output")
	}
	if len(problems) > 0 {
		return problems
	}
	for name, w := range want {
		limit := tolerance
		if got[name].half {
			limit = rounded
		}
		if e := MaxRel(got[name].value, w.value); !(e <= limit) {
			say("%s is off by %.3g of its maximum, limit %.3g", name, e, limit)
		}
		if !slices.EqualFunc(got[name].value, again[name].value, sameBits) {
			say("%s differs between two runs", name)
		}
	}
	return problems
}

func sameBits(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
