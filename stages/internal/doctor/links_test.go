package doctor

import (
	"errors"
	"strings"
	"testing"
)

func TestLinks(t *testing.T) {
	yes := func(int, int) (bool, error) { return true, nil }
	no := func(int, int) (bool, error) { return false, nil }
	fails := func(int, int) (bool, error) { return false, errors.New("no driver") }
	oneWay := func(a, b int) (bool, error) { return a < b, nil }
	neighbours := func(a, b int) (bool, error) { return a/2 == b/2, nil }
	for _, c := range []struct {
		device          string
		reaches, linked func(a, b int) (bool, error)
		want            string
	}{
		{"cpu", fails, fails, ""},
		{"cuda:3", fails, fails, ""},
		{"cuda:0-7", yes, yes, "every pair of cuda:0-7: peer access over NVLink"},
		{"cuda:0-1/float32", yes, no, "every pair of cuda:0-1/float32: peer access without NVLink"},
		{"cuda:0-1", yes, fails, "every pair of cuda:0-1: peer access"},
		{"cuda:0-1", fails, yes, "every pair of cuda:0-1: not known (no driver)"},
		{"cuda:0-1", oneWay, yes, "every pair of cuda:0-1: no peer access, copies go through page-locked host memory"},
		{"cuda:2-5", yes, neighbours, "gpu 2-3, 4-5: peer access over NVLink; gpu 2-4, 2-5, 3-4, 3-5: peer access without NVLink"},
	} {
		var got []string
		for _, k := range links(c.device, c.reaches, c.linked) {
			if k.Name != "links" || !k.OK {
				t.Errorf("%s: %+v", c.device, k)
			}
			got = append(got, k.Detail)
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%s: %q, want %q", c.device, s, c.want)
		}
	}
}
