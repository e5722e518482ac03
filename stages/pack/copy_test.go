package pack

import (
	"strings"
	"testing"

	"penstock/kernels"
)

func TestJudge(t *testing.T) {
	good := kernels.FeatureCheck{Finite: true, Checksum: 7}
	for _, c := range []struct {
		name string
		seen kernels.FeatureCheck
		sum  uint64
		want string // part of the reason; empty for good features
	}{
		{"good", good, 7, ""},
		{"another sum", good, 8, "checksum 0000000000000007"},
		{"not finite", kernels.FeatureCheck{Checksum: 7}, 7, "not finite"},
		{"zero", kernels.FeatureCheck{Finite: true, Zero: true, Constant: true, Checksum: 7}, 7, "all zero"},
		{"constant", kernels.FeatureCheck{Finite: true, Constant: true, Checksum: 7}, 7, "every row is the same"},
	} {
		err := judge(c.seen, c.sum)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
