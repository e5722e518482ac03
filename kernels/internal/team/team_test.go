package team

import (
	"fmt"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestRunCallsEachIndexOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, threads := range []int{0, 1, 2, 5} {
		for _, n := range []int{0, 1, 2, 3, 100} {
			t.Run(fmt.Sprintf("%d threads, %d calls", threads, n), func(t *testing.T) {
				team := New(threads)
				defer team.Close()
				for range 50 {
					calls := make([]atomic.Int32, n)
					team.Run(n, func(i int) { calls[i].Add(1) })
					for i := range calls {
						if c := calls[i].Load(); c != 1 {
							t.Fatalf("index %d was called %d times", i, c)
						}
					}
				}
			})
		}
	}
}

func TestNilTeamRunsInOrder(t *testing.T) {
	var team *Team
	var got []int
	team.Run(3, func(i int) { got = append(got, i) })
	if fmt.Sprint(got) != "[0 1 2]" || team.Threads() != 1 {
		t.Fatalf("calls %v with %d threads", got, team.Threads())
	}
	team.Close()
}

func TestRunDoesNotAllocate(t *testing.T) {
	team := New(2)
	defer team.Close()
	var sum atomic.Int64
	fn := func(i int) { sum.Add(int64(i)) }
	if n := testing.AllocsPerRun(100, func() { team.Run(4, fn) }); n != 0 {
		t.Fatalf("%v allocations a loop", n)
	}
}

// BenchmarkRun is the cost of sharing a loop of empty bodies.
func BenchmarkRun(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			team := New(threads)
			defer team.Close()
			for b.Loop() {
				team.Run(threads, func(int) {})
			}
		})
	}
}
