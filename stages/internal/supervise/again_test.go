package supervise

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// What comes before a restart sees each but the first start, is waited for, and ends with the stop.
func TestAgain(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		dir := t.TempDir()
		mark := filepath.Join(dir, "died")
		asked, may := make(chan string), make(chan struct{})
		s := newTest(t, Options{Restarts: 1, Again: func(ctx context.Context, name string) {
			asked <- name
			select {
			case <-may:
			case <-ctx.Done():
			}
		}})
		if err := s.Start(script("draft-1", dir, "once", mark, "1", "exit", "0")); err != nil {
			t.Fatal(err)
		}
		if name := <-asked; name != "draft-1" {
			t.Errorf("asked for %s", name)
		}
		if _, err := os.Stat(mark); err != nil || len(s.PIDs()) != 0 {
			t.Errorf("it runs: %v, %v", s.PIDs(), err)
		}
		if stopped {
			if err := s.Stop("draft-1"); err != nil {
				t.Error(err)
			}
		} else {
			close(may)
		}
		select {
		case <-s.Done("draft-1"):
		case err := <-s.Failed():
			t.Error(err)
		}
	}
}
