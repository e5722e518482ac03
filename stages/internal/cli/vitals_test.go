package cli

import (
	"slices"
	"testing"
	"time"

	"penstock/schema"
	"penstock/stages/internal/worker"
)

func TestSilentAndStuckProcessesAreReplaced(t *testing.T) {
	var now time.Time
	var killed []string
	v := newVitals(time.Second, func(name string, _ int, _ string) { killed = append(killed, name) })
	v.now = func() time.Time { return now }
	all := []string{"broker", "target-1", "pack-1"}
	step := func(d time.Duration, answers bool, heard ...string) []string {
		killed = nil
		now = now.Add(d)
		for _, name := range heard {
			v.take(schema.StageState{Instance: name, State: "running"})
		}
		v.look(all, answers)
		slices.Sort(killed)
		return killed
	}
	now = time.Unix(1000, 0)
	for _, c := range []struct {
		name    string
		after   time.Duration
		answers bool
		heard   []string
		want    []string
	}{
		{"both start", 0, true, nil, nil},
		{"one is silent", 9 * time.Second, true, []string{"pack-1"}, nil},
		{"for too long", 2 * time.Second, true, nil, []string{"target-1"}},
		{"its successor starts", time.Second, true, []string{"pack-1"}, nil},
		{"the broker does not answer", 9 * time.Second, false, nil, nil},
		{"for too long", 9 * time.Second, false, nil, []string{"broker"}},
		{"and nobody else is blamed", 5 * time.Second, true, nil, nil},
	} {
		if got := step(c.after, c.answers, c.heard...); !slices.Equal(got, c.want) {
			t.Errorf("%s: replaced %v, want %v", c.name, got, c.want)
		}
	}
	killed = nil
	v.take(schema.StageState{Instance: "draft-1", State: worker.Stuck})
	if !slices.Equal(killed, []string{"draft-1"}) {
		t.Errorf("stuck by its own account: replaced %v", killed)
	}
}
