package draft

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecent(t *testing.T) {
	var r recent
	for i := range 2 * recentWindows {
		r = r.join(recent{[]float64{float64(i)}, []float64{float64(2 * i)}})
	}
	if len(r.Losses) != recentWindows || r.Losses[0] != recentWindows || mean(r.Losses) != 1.5*recentWindows-0.5 || mean(r.CrossEntropies) != 3*recentWindows-1 {
		t.Errorf("%d losses from %g on, means %g and %g", len(r.Losses), r.Losses[0], mean(r.Losses), mean(r.CrossEntropies))
	}
	// A checkpoint without cross-entropies is gone on from.
	got := recent{}.join(recent{Losses: []float64{4}}).join(recent{[]float64{2}, []float64{1}})
	if want := (recent{[]float64{4, 2}, []float64{1}}); !cmp.Equal(got, want) || mean(got.CrossEntropies) != 1 || mean(nil) != 0 {
		t.Errorf("%+v, want %+v", got, want)
	}
}
