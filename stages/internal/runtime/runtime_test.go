package runtime

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"penstock/kernels"
	"penstock/stages/internal/rundir"
)

const testConfig = `
target: {dir: ../../../deploy/demo/models/tiny-go, taps: [1, 2, 4]}
data: {files: [../../../deploy/demo/data/tiny-go-chat.jsonl], max_length: 512}
batch: {tokens: 1024}
`

// TestMain lets the test binary be a stage: RUNTIME_TEST says what its work is.
func TestMain(m *testing.M) {
	switch os.Getenv("RUNTIME_TEST") {
	case "":
		os.Exit(m.Run())
	case "nats":
		Main("target", func(ctx context.Context, env *Env) error {
			url, err := env.NATS(ctx)
			fmt.Println("at", url, "as", env.Instance, "on", env.Device)
			return err
		})
	case "drain":
		Main("draft", func(ctx context.Context, env *Env) error {
			fmt.Println("ready")
			<-ctx.Done()
			return fmt.Errorf("train: %w", ctx.Err())
		})
	case "permanent":
		Main("pack", func(ctx context.Context, env *Env) error {
			return fmt.Errorf("open model: %w", Permanent(errors.New("no config.json")))
		})
	case "device":
		Main("draft", func(ctx context.Context, env *Env) error {
			return Permanent(fmt.Errorf("load vocabulary: %w", kernels.ErrFailed))
		})
	case "transient":
		Main("pack", func(ctx context.Context, env *Env) error { return errors.New("broker is gone") })
	}
}

// stage is a running stage process.
type stage struct {
	cmd      *exec.Cmd
	out, err *bufio.Reader
}

func startStage(t *testing.T, work string, args ...string) *stage {
	t.Helper()
	s := &stage{cmd: exec.Command(os.Args[0], args...)}
	s.cmd.Env = append(os.Environ(), "RUNTIME_TEST="+work)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out, s.err = bufio.NewReader(out), bufio.NewReader(stderr)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	return s
}

// line returns the next line that contains want.
func line(t *testing.T, r *bufio.Reader, want string) string {
	t.Helper()
	for {
		l, err := r.ReadString('\n')
		if strings.Contains(l, want) {
			return l
		}
		if err != nil {
			t.Fatalf("no line with %q: %v", want, err)
		}
	}
}

// end waits for the process and returns what was left on standard error, and the exit code.
func (s *stage) end(t *testing.T) (stderr string, code int) {
	t.Helper()
	if _, err := io.Copy(io.Discard, s.out); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(s.err)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait()
	return string(b), s.cmd.ProcessState.ExitCode()
}

func configFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(path, []byte(testConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStartedByHandInAnyOrder(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	early := startStage(t, "nats", "--run", run, "--instance", "target-2")
	line(t, early.err, `for="a configuration in `+run)
	first := startStage(t, "nats", "--run", run, "--config", configFile(t), "--device", "cpu")
	line(t, first.err, "for=\"the broker's address in "+run)
	dir, err := rundir.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir.Summary(), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	late := startStage(t, "nats", "--run", run, "--instance", "target-3")
	line(t, late.err, "the run has ended: this goes on with it if the other stages do; `penstock up --run "+run+"` starts them")
	line(t, late.err, "for=\"the broker's address in "+run)
	if err := dir.WriteURL("nats://127.0.0.1:1234"); err != nil {
		t.Fatal(err)
	}
	line(t, early.out, "at nats://127.0.0.1:1234 as target-2 on cpu")
	line(t, first.out, "at nats://127.0.0.1:1234 as target-1 on cpu")
	line(t, late.out, "at nats://127.0.0.1:1234 as target-3 on cpu")
	for _, s := range []*stage{early, first, late} {
		if stderr, code := s.end(t); code != 0 || !strings.Contains(stderr, "msg=done") {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	}
	external := startStage(t, "nats", "--run", run, "--nats", "nats://other:4222")
	line(t, external.out, "at nats://other:4222 ")
	external.end(t)
}

func TestExitCodes(t *testing.T) {
	config := configFile(t)
	for _, c := range []struct {
		work  string
		args  []string
		code  int
		wants string
	}{
		{"permanent", nil, ExitPermanent, "open model: no config.json"},
		{"transient", nil, 1, "broker is gone"},
		{"device", nil, ExitDevice, "load vocabulary: the GPU has failed"},
		{"nats", []string{"--set", "train.lr=-1"}, ExitPermanent, "train.lr"},
		{"nats", []string{"--nonsense"}, ExitPermanent, "nonsense"},
		{"nats", []string{"extra"}, ExitPermanent, "extra"},
	} {
		s := startStage(t, c.work, append([]string{"--run", filepath.Join(t.TempDir(), "run"), "--config", config}, c.args...)...)
		stderr, code := s.end(t)
		if code != c.code || !strings.Contains(stderr, c.wants) {
			t.Errorf("%s %v: exit code %d, want %d; stderr %q, want %q in it", c.work, c.args, code, c.code, stderr, c.wants)
		}
	}
}

func TestSignalDrains(t *testing.T) {
	s := startStage(t, "drain", "--run", filepath.Join(t.TempDir(), "run"), "--config", configFile(t))
	line(t, s.out, "ready")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	stderr, code := s.end(t)
	if code != 128+int(syscall.SIGTERM) || strings.Contains(stderr, "failed") {
		t.Errorf("exit code %d, want 143; stderr %q", code, stderr)
	}
}

func TestInstanceNameIsTakenOnce(t *testing.T) {
	run, config := filepath.Join(t.TempDir(), "run"), configFile(t)
	first := startStage(t, "drain", "--run", run, "--config", config)
	line(t, first.out, "ready")
	second := startStage(t, "drain", "--run", run, "--config", config)
	line(t, second.err, "the former draft-1 to end")
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	line(t, second.out, "ready")
}

func TestResolve(t *testing.T) {
	dir, err := rundir.Make(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	f := Flags{Config: configFile(t)}
	cfg, err := f.Resolve(dir)
	if err != nil || cfg.Target.Instances != 1 {
		t.Fatalf("first: %+v, %v", cfg.Target, err)
	}
	for _, c := range []struct {
		name string
		f    Flags
		want string // in the error; empty for none
	}{
		{"as it was", Flags{}, ""},
		{"placement", Flags{Sets: []string{"target.instances=3"}, NATS: "nats://h:1"}, ""},
		{"the same file", f, ""},
		{"arithmetic", Flags{Sets: []string{"train.lr=0.5"}}, "train.lr"},
		{"arithmetic in a file", Flags{Config: f.Config, Sets: []string{"seed=9"}}, "seed"},
		{"nonsense", Flags{Sets: []string{"target.instances=0"}}, "target.instances"},
	} {
		got, err := c.f.Resolve(dir)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want %q in it", c.name, err, c.want)
		case c.name == "placement" && (got.Target.Instances != 3 || got.Broker.URL != "nats://h:1"):
			t.Errorf("%s: %+v %+v", c.name, got.Target, got.Broker)
		}
	}
	if again, err := (&Flags{}).Resolve(dir); err != nil || again.Target.Instances != 1 {
		t.Errorf("the stored configuration has changed: %+v, %v", again.Target, err)
	}
}

func TestNoConfiguration(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := (&Flags{}).Load(); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Fatalf("err = %v", err)
	}
}
