package worker

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"penstock/broker"
	"penstock/broker/slots"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
)

// What could not be handed back stays in the journal, for whoever finds that; what is handed back or gone does not.
func TestAbandonKeepsWhatItCannotHandBack(t *testing.T) {
	dir, err := rundir.Make(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	w := &Worker{Env: &runtime.Env{Run: dir, Instance: "draft-1"}, Keeper: newKeeper(func(string) error { return nil }, time.Hour)}
	if err := w.KeepJournal(4, 7); err != nil {
		t.Fatal(err)
	}
	back, lost, gone := rootAcks+"back", rootAcks+"lost", rootAcks+"gone"
	for _, root := range []string{back, lost, gone, back} {
		w.Keeper.Hold(root)
	}
	silent := errors.New("the broker does not answer")
	answers := map[string]error{lost: silent, gone: fmt.Errorf("hand back: %w", broker.ErrGone)}
	if err := w.Keeper.Abandon(func(root string) error { return answers[root] }); !errors.Is(err, silent) || errors.Is(err, broker.ErrGone) {
		t.Errorf("it ends with %v", err)
	}
	w.Keeper.close()
	j, err := slots.ReadJournal(dir.Journal("draft-1"))
	if err != nil || len(j.Uses) != 1 || j.Uses[0].Root != lost {
		t.Errorf("the journal has %+v: %v", j.Uses, err)
	}
}
