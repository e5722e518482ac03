package draft

import (
	"testing"
	"time"
)

func TestSavesThatTakeLongArePutOff(t *testing.T) {
	ended := time.Unix(1e9, 0)
	for _, c := range []struct {
		took, since time.Duration
		want        bool
	}{
		{0, 0, true}, // none yet
		{999 * time.Millisecond, 0, true},
		{time.Second, 39 * time.Second, false},
		{time.Second, 40 * time.Second, true},
		{6 * time.Second, 239 * time.Second, false},
		{6 * time.Second, 4 * time.Minute, true},
		{time.Minute, 9 * time.Minute, false},
		{time.Minute, 10 * time.Minute, true},
	} {
		if got := rested(ended.Add(c.since), ended, c.took); got != c.want {
			t.Errorf("a save took %v, %v ago: %v", c.took, c.since, got)
		}
	}
}
