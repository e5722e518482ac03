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

// TestSuccessorIsNoticed has something done once, when a successor says that it works, and not for what the dead one said.
func TestSuccessorIsNoticed(t *testing.T) {
	died := time.Unix(1000, 0)
	v := newVitals(time.Second, nil)
	v.now = func() time.Time { return died }
	done := make(chan bool, 2)
	v.onceBack("pack-1", func() { done <- true })
	say := func(instance, state string, after time.Duration) {
		v.take(schema.StageState{Instance: instance, State: state, At: died.Add(after).UnixNano()})
	}
	say("pack-1", "running", -time.Second)
	say("pack-2", "running", time.Second)
	say("pack-1", "waiting", time.Second)
	if len(v.owed) != 1 {
		t.Fatal("done before a successor works")
	}
	say("pack-1", "running", 2*time.Second)
	say("pack-1", "running", 3*time.Second)
	if <-done; len(v.owed) != 0 {
		t.Error("done more than once")
	}
}
