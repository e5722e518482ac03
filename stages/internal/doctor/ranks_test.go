package doctor

import (
	"errors"
	"testing"
)

func TestRanks(t *testing.T) {
	there := func() (string, error) { return "NCCL 2.99.1", nil }
	missing := func() (string, error) { return "", errors.New("NCCL is not there") }
	for _, c := range []struct {
		sets []string
		nccl func() (string, error)
		want string
	}{
		{[]string{"device=cuda:0-1"}, there, ""},
		{[]string{"device=cpu", "draft.ranks=2"}, there, ""},
		{[]string{"device=cuda:0-1", "draft.ranks=2"}, there, "2 add up by NCCL 2.99.1"},
		{[]string{"device=cuda:0-1", "draft.ranks=2"}, missing, "2 add up through host memory: NCCL is not there"},
		{[]string{"device=cuda:0-1", "draft.ranks=2", "draft.reduce=host"}, there, "2 add up through host memory, as draft.reduce says"},
		{[]string{"device=cuda:0-1", "draft.ranks=2", "deterministic=true"}, there, "2 add up through host memory, in plan order"},
		{[]string{"device=cuda:0-1", "draft.ranks=3"}, there, "3 on cuda:0-1 add up through host memory: NCCL takes no GPU twice"},
		{[]string{"device=cuda:1", "draft.ranks=2"}, there, "2 on cuda:1 add up through host memory: NCCL takes no GPU twice"},
	} {
		got := ""
		for _, k := range ranks(config(t, c.sets...), c.nccl) {
			if got += k.Detail; k.Name != "ranks" || !k.OK {
				t.Errorf("%v: %+v", c.sets, k)
			}
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.sets, got, c.want)
		}
	}
}
