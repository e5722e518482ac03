package verify

import (
	"strings"
	"testing"

	"penstock/kernels"
)

// TestFamilies holds each target family to the golden folder of a small random model: grouped, single and ungrouped heads,
// biases, tied and untied heads, sharded weights, every rope scaling in both spellings, sliding windows.
func TestFamilies(t *testing.T) {
	for _, name := range []string{"qwen3", "qwen2", "llama3", "llama3-tied", "mistral"} {
		t.Run(name, func(t *testing.T) {
			r := verify(t, &kernels.Ref{}, Options{TargetDir: demo + "models/" + name + "-random", GoldenDir: demo + "golden/" + name + "-random"})
			if !r.OK || len(r.Checks) < 89 {
				t.Errorf("ok %v, %d checks:\n%s", r.OK, len(r.Checks), r)
			}
			for _, c := range r.Checks {
				if strings.HasPrefix(c.Name, "target.") && c.MaxRelErr > 1e-5 {
					t.Errorf("%s is off by %.2g", c.Name, c.MaxRelErr)
				}
			}
		})
	}
}
