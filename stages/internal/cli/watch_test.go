package cli

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWatchFindsTheLiveRun: `./task watch` takes the run whose broker answers, and says what to do where there is none.
func TestWatchFindsTheLiveRun(t *testing.T) {
	script, err := filepath.Abs(filepath.Join(root, "deploy/tools/nats/live"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	check := func(good bool, want string) {
		t.Helper()
		out, err := exec.Command(script).CombinedOutput()
		if (err == nil) != good || strings.TrimSpace(string(out)) != want {
			t.Errorf("%v, %q; want %q", err, out, want)
		}
	}
	check(false, "watch: no run with a broker of its own goes on under runs/: start one with ./task up, and watch it from another terminal")

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	if err := os.MkdirAll("runs/a", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("runs/a/nats.url", []byte("nats://"+address+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	check(true, "runs/a")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	check(false, "watch: the broker of runs/a does not answer at "+address+": the run has ended, go on with ./task up -- --run runs/a")
}
