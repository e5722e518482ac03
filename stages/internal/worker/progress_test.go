package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"penstock/stages/internal/account"
)

func TestHungIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ackWait = time.Second
		b := account.New(account.Starting)
		stays := func(activity string, d time.Duration, want bool) {
			t.Helper()
			b.Enter(activity)
			time.Sleep(d) // of the bubble's clock
			if got := hung(b, ackWait); got != want {
				t.Errorf("%v of %s: hung %v", d, activity, got)
			}
		}
		stays(account.Starting, time.Hour, false)
		stays(account.NoInput, time.Hour, false)
		stays(account.Step, time.Hour, false)
		stays(account.Compute, 9*time.Second, false)
		stays(account.Compute, 80*time.Second, false) // ten times what was measured is 90 s
		stays(account.Compute, 801*time.Second, true)
		stays(account.Copy, 11*time.Second, true) // nothing measured of it
		stays(account.Copy, 100*time.Millisecond, false)
	})
}

// TestHungStageMarksNothing holds a message and gets stuck.
func TestHungStageMarksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		marks, stuck := 0, false
		k := newKeeper(func(string) error { marks++; return nil }, time.Second)
		k.hung = func() bool { return stuck }
		k.Hold("a")
		done := make(chan error, 1)
		go func() { done <- k.run(t.Context()) }()
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		if marks != 3 {
			t.Errorf("%d marks in 3.5 s", marks)
		}
		stuck = true
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if marks != 3 {
			t.Errorf("%d marks after the process got stuck", marks-3)
		}
	})
}
