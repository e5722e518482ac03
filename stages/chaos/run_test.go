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
	"strings"
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

// up starts penstock up on the directory.
func (r *run) up(ctx context.Context) (*exec.Cmd, *bytes.Buffer) {
	r.t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(r.bin, "penstock"), "up", "--run", r.dir, "--config", r.file)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	return cmd, &out
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
	out, err := exec.Command(filepath.Join(r.bin, "penstock"), "ledger", "--run", r.dir, "--json").CombinedOutput()
	if err != nil {
		r.t.Fatalf("penstock ledger: %v\n%s", err, out)
	}
	var l map[string]int
	if err := json.Unmarshal(out, &l); err != nil {
		r.t.Fatalf("penstock ledger: %v in %s", err, out)
	}
	return l
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

// logs returns the end of every log, for a failure.
func (r *run) logs() string {
	var out strings.Builder
	files, _ := filepath.Glob(filepath.Join(r.dir, "logs", "*.log"))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		fmt.Fprintf(&out, "--- %s\n%s\n", filepath.Base(f), strings.Join(lines[max(0, len(lines)-12):], "\n"))
	}
	return out.String()
}

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
