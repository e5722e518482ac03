package cli

import (
	"errors"
	"testing"

	"penstock/schema"
	"penstock/stages/internal/monitor"
	"penstock/stages/internal/page"
	"penstock/stages/internal/rundir"
)

func TestPageSaysHowARunEnded(t *testing.T) {
	dir, err := rundir.Make(t.TempDir() + "/run")
	if err != nil {
		t.Fatal(err)
	}
	r := &running{dir: dir, view: monitor.NewTracker()}
	r.view.Apply(schema.Progress{Windows: 5, Total: 9})
	for _, c := range []struct {
		err  error
		want page.Health
	}{
		{nil, page.Health{Level: "ok", Text: "Finished: 5 steps."}},
		{errStopped, page.Health{Level: "warn", Text: "Stopped at step 5 of 9. To go on: penstock up --run " + dir.Path()}},
		{errors.New("draft-1: no memory"), page.Health{Level: "bad", Text: "Ended at step 5 of 9: draft-1: no memory"}},
	} {
		if got := r.howEnded(c.err); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.err, got, c.want)
		}
	}
}
