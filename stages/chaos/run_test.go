package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"penstock/schema"
	"penstock/schema/checkpoint"
	"penstock/schema/safetensors"
	"penstock/stages/stagestest"
)

// built holds the binaries of all tests of the package.
var built string

func TestMain(m *testing.M) {
	var err error
	if built, err = os.MkdirTemp("", "penstock-chaos-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(built); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var build = sync.OnceValues(func() ([]byte, error) {
	cmd := exec.Command("go", "build", "-o", built+"/", "./stages/cmd/...")
	cmd.Dir = stagestest.Root()
	return cmd.CombinedOutput()
})

// bins returns the folder of the binaries.
func bins(t *testing.T) string {
	t.Helper()
	if *binaries != "" {
		return *binaries
	}
	if out, err := build(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return built
}

// run is one run directory and the processes on it.
type run struct {
	t    *testing.T
	bin  string
	dir  string
	file string // configuration
}

func newRun(t *testing.T, bin string, c schema.Config) *run {
	t.Helper()
	dir := t.TempDir()
	b, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	r := &run{t: t, bin: bin, dir: filepath.Join(dir, "run"), file: filepath.Join(dir, "config.yaml")}
	if err := os.WriteFile(r.file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return r
}

// up is one start of `penstock up`.
type up struct {
	run  *run
	cmd  *exec.Cmd
	out  bytes.Buffer // whole once it has ended
	done chan struct{}
	err  error // once it has ended
}

// up starts `penstock up` on the directory. It is killed when ctx ends, after a word on what it was at if that is because
// time is up, and has ended before the test has.
func (r *run) up(ctx context.Context) *up {
	r.t.Helper()
	u := &up{run: r, done: make(chan struct{})}
	u.cmd = exec.CommandContext(ctx, filepath.Join(r.bin, "penstock"), "up", "--run", r.dir, "--config", r.file)
	u.cmd.Stdout, u.cmd.Stderr = &u.out, &u.out
	u.cmd.WaitDelay = patience
	u.cmd.Cancel = func() error {
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			r.t.Logf("time is up\n%s", r.autopsy(u.cmd.Process))
		}
		return u.cmd.Process.Kill()
	}
	if err := u.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		u.err = u.cmd.Wait()
		close(u.done)
	}()
	r.t.Cleanup(func() { <-u.done })
	return u
}

// ended reports whether it has.
func (u *up) ended() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

// reach waits until so many windows have committed, and reports false if the run has ended before.
func (u *up) reach(ctx context.Context, windows int) bool {
	r := u.run
	r.t.Helper()
	if err := until(ctx, func() bool { return r.windows() >= windows || u.ended() }); err != nil {
		r.t.Fatalf("waiting for window %d: %v\n%s", windows, err, r.logs(12))
	}
	return r.windows() >= windows
}

// must is reach of a window before the last.
func (u *up) must(ctx context.Context, windows int) {
	u.run.t.Helper()
	if !u.reach(ctx, windows) {
		u.run.t.Fatalf("the run ended after %d windows: %v\n%s", u.run.windows(), u.err, &u.out)
	}
}

// well waits for the end and fails the test unless it is a good one.
func (u *up) well() {
	u.run.t.Helper()
	if <-u.done; u.err != nil {
		u.run.t.Fatalf("up: %v\n%s\n%s", u.err, &u.out, u.run.logs(12))
	}
}

// pids returns the processes that run now, by instance.
func (r *run) pids() map[string]int {
	var pids map[string]int
	b, err := os.ReadFile(filepath.Join(r.dir, "pids.json"))
	if errors.Is(err, os.ErrNotExist) || err == nil && json.Unmarshal(b, &pids) != nil {
		return nil
	}
	return pids
}

// windows counts the commits in the metrics, over all generations.
func (r *run) windows() int {
	b, err := os.ReadFile(filepath.Join(r.dir, "metrics.jsonl"))
	if err != nil {
		return 0
	}
	return bytes.Count(b, []byte("\n"))
}

// ledger is what penstock ledger says.
func (r *run) ledger() map[string]int {
	r.t.Helper()
	out, err := r.penstock("ledger", "--json")
	if err != nil {
		r.t.Fatalf("penstock ledger: %v\n%s", err, out)
	}
	var l map[string]int
	if err := json.Unmarshal(out, &l); err != nil {
		r.t.Fatalf("penstock ledger: %v in %s", err, out)
	}
	return l
}

// penstock runs a short command on the directory.
func (r *run) penstock(command string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(r.bin, "penstock"), append([]string{command, "--run", r.dir}, args...)...)
	cmd.WaitDelay = time.Second
	return cmd.CombinedOutput()
}

// weights are the bytes of the last checkpoint's tensors.
func (r *run) weights() []byte {
	r.t.Helper()
	list, err := checkpoint.List(filepath.Join(r.dir, "checkpoints"))
	if err != nil || len(list) == 0 {
		r.t.Fatalf("checkpoints: %v, %v", list, err)
	}
	b, err := os.ReadFile(filepath.Join(list[0].Dir, safetensors.SingleFile))
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// patience bounds what takes no time on a machine that is not overloaded.
const patience = 30 * time.Second

// until polls a state of other processes, for which there is nothing to wait on.
func until(ctx context.Context, ok func() bool) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
