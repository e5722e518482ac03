package account

import (
	"math"
	"testing"
	"time"
)

func TestBookSumsToWallTime(t *testing.T) {
	clock := time.Unix(100, 0)
	b := newBook(Starting, func() time.Time { return clock })
	for _, step := range []struct {
		enter string
		after time.Duration
	}{{NoInput, 2 * time.Second}, {Compute, time.Second}, {Copy, 4 * time.Second}, {Compute, 500 * time.Millisecond}} {
		clock = clock.Add(step.after)
		b.Enter(step.enter)
	}
	clock = clock.Add(3 * time.Second)
	got := b.Seconds()
	want := map[string]float64{Starting: 2, NoInput: 1, Compute: 4 + 3, Copy: 0.5}
	var sum float64
	for k, v := range got {
		sum += v
		if math.Abs(v-want[k]) > 1e-9 {
			t.Errorf("%s: %v s, want %v", k, v, want[k])
		}
	}
	if math.Abs(sum-10.5) > 1e-9 {
		t.Errorf("sum %v s, want the wall time 10.5", sum)
	}
	if idle := Idle(got); math.Abs(idle-1/8.5) > 1e-9 {
		t.Errorf("idle %v, want 1 s of 8.5", idle)
	}
}
