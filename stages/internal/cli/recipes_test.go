//go:build recipes

package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

var shell = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestRecipes runs every command of recipes.md against a run that is going on, as its reader would: in the repository's
// root, with the binaries and the nats tool that its tasks build.
func TestRecipes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	text, err := os.ReadFile(root + "/deploy/docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := shell.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 8 {
		t.Fatalf("%d blocks of commands", len(blocks))
	}
	run := startRecipesRun(t, ctx)
	for _, b := range blocks[1:] {
		for _, command := range commands(b[1]) {
			short, cancel := context.WithTimeout(ctx, time.Minute)
			cmd := exec.CommandContext(short, "bash", "-eu", "-o", "pipefail", "-c", blocks[0][1]+command)
			cmd.Dir, cmd.Env = root, append(os.Environ(), "RUN="+run)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
			out, err := cmd.CombinedOutput()
			cancel()
			if err != nil || len(strings.TrimSpace(string(out))) == 0 {
				t.Errorf("%s\n%v\n%s", command, err, out)
				continue
			}
			t.Logf("%s\n%s", command, out)
		}
	}
}

// commands splits a block into its lines; assignments go with the line that uses them.
func commands(block string) (out []string) {
	prefix := ""
	for line := range strings.Lines(block) {
		if regexp.MustCompile(`^[A-Z]+=`).MatchString(line) {
			prefix += line
			continue
		}
		out = append(out, prefix+line)
	}
	return out
}

// startRecipesRun trains until the test ends, and returns the run directory once a step has committed.
func startRecipesRun(t *testing.T, ctx context.Context) string {
	t.Helper()
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Rel(top, filepath.Join(t.TempDir(), "run")) // as runs/NAME is
	if err != nil {
		t.Fatal(err)
	}
	up := exec.Command("bin/penstock", "up", "--run", dir, "--set", "train.max_steps=0")
	up.Dir = top
	var said strings.Builder
	up.Stdout, up.Stderr = &said, &said
	if err := up.Start(); err != nil {
		t.Fatalf("%v: ./task build makes it", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- up.Wait() }()
	t.Cleanup(func() {
		stop := exec.Command("bin/penstock", "stop", "--run", dir)
		stop.Dir = top
		if out, err := stop.CombinedOutput(); err != nil {
			t.Errorf("stop: %v\n%s", err, out)
			up.Process.Kill()
		}
		if err := <-ended; err != nil {
			t.Errorf("up: %v\n%s", err, said.String())
		}
	})
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if info, err := os.Stat(filepath.Join(top, dir, "metrics.jsonl")); err == nil && info.Size() > 0 {
			return dir
		}
		select {
		case <-tick.C:
		case err := <-ended:
			ended <- err
			t.Fatalf("up: %v\n%s", err, said.String())
		case <-ctx.Done():
			t.Fatal("no step has committed")
		}
	}
}
