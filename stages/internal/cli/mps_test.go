package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"penstock/schema"
	"penstock/stages/internal/rundir"
)

// service stands in for the program that controls the Multi-Process Service: with -f it runs until it is told to quit. A server that
// it is told to start is there at the second question, and takes clients at the third.
const service = `#!/bin/sh
cd "$CUDA_MPS_PIPE_DIRECTORY" || exit 1
if [ "$1" = -f ]; then
  [ -z "$CUDA_VISIBLE_DEVICES" ] || exit 2
  : > control
  until [ -e quit ]; do sleep 0.01; done
  exit 0
fi
read -r command
case $command in
quit) : > quit ;;
start_server*) : > asked ;;
get_server_list) if [ -e asked ]; then if [ -e begun ]; then echo 4711; else : > begun; fi; fi ;;
get_server_status*) if [ -e ready ]; then echo ACTIVE; else : > ready; echo INITIALIZING; fi ;;
esac
`

func mpsRun(t *testing.T, script string) (schema.Config, *rundir.Dir) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("CUDA_VISIBLE_DEVICES", "1")
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, mpsControl), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	dir, err := rundir.Make(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := schema.Default()
	cfg.Device, cfg.MPS = "cuda:0", true
	return cfg, dir
}

// A directory whose owner was killed goes with the next start; one that is held stays, and one that is not yet.
func TestMPSDirectoriesOfTheDead(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	alive, held, err := makePipes()
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	dead := filepath.Join(os.TempDir(), mpsDirs+"1")
	fresh := filepath.Join(os.TempDir(), mpsDirs+"2")
	for _, dir := range []string{dead, fresh} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{alive, dead} {
		if err := os.WriteFile(filepath.Join(dir, "control"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own, mine, err := makePipes()
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	for dir, want := range map[string]bool{alive: true, dead: false, fresh: true, own: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", dir, err, want)
		}
	}
}

func TestMPSStartsAnswersAndEnds(t *testing.T) {
	cfg, dir := mpsRun(t, service)
	m, why := startMPS(t.Context(), cfg, dir)
	if m == nil {
		t.Fatal(why)
	}
	if !strings.HasPrefix(m.env(), mpsPipes+"="+os.TempDir()) {
		t.Errorf("clients find it by %s", m.env())
	}
	if env := m.client("target-1"); !slices.Equal(env, []string{m.env()}) {
		t.Errorf("a target's environment: %q", env)
	}
	if env := m.client("draft-2"); !slices.Equal(env, []string{m.env(), mpsFirst + "=1"}) {
		t.Errorf("a drafter's: %q", env)
	}
	t.Setenv(mpsFirst, "0")
	if env := m.client("draft-2"); !slices.Equal(env, []string{m.env()}) {
		t.Errorf("a drafter's where a priority is set: %q", env)
	}
	m.stop()
	if state := m.cmd.ProcessState; state == nil || !state.Success() {
		t.Errorf("it was told to quit and ended with %v", state)
	}
	if _, err := os.Stat(m.dir); !os.IsNotExist(err) {
		t.Errorf("its directory is left: %v", err)
	}
}

func TestMPSIsLeftWhereItIsNotWantedOrDoesNotStart(t *testing.T) {
	cfg, dir := mpsRun(t, strings.Replace(service, "echo 4711", ":", 1))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if m, why := startMPS(ctx, cfg, dir); m != nil || !strings.Contains(why, "deadline exceeded") {
		t.Errorf("a service that gets no server: %v, %q", m, why)
	}
	cfg, dir = mpsRun(t, "#!/bin/sh\nexit 3\n")
	if m, why := startMPS(t.Context(), cfg, dir); m != nil || !strings.Contains(why, "exit status 3") {
		t.Errorf("a service that ends: %v, %q", m, why)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "penstock-mps-*")); len(left) > 0 {
		t.Errorf("its directory is left: %v", left)
	}
	cfg.MPS = false
	if m, why := startMPS(t.Context(), cfg, dir); m != nil || !strings.Contains(why, "mps is off") {
		t.Errorf("not asked for: %v, %q", m, why)
	}
	cfg.Device = "cpu"
	if m, why := startMPS(t.Context(), cfg, dir); m != nil || why != "" {
		t.Errorf("on no GPU: %v, %q", m, why)
	}
}

// A stage is started again once the server has left its fault, or the run is stopped.
func TestMPSRecovers(t *testing.T) {
	cfg, dir := mpsRun(t, strings.Replace(service, "get_server_status*) if", "get_server_status*) if [ -e fault ]; then echo x >> asks; cat fault; ! grep -q silent fault; elif", 1))
	m, why := startMPS(t.Context(), cfg, dir)
	if m == nil {
		t.Fatal(why)
	}
	defer m.stop()
	r := &running{mps: m}
	fault := filepath.Join(m.dir, "fault")
	for _, c := range []struct {
		status  string
		stopped bool
	}{{"FAULT", false}, {"FAULT", true}, {"INITIALIZING", false}, {"silent", false}} {
		if err := os.WriteFile(fault, []byte(c.status), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		r.again(ctx, "broker")
		began := make(chan struct{})
		go func() {
			r.again(ctx, "draft-1")
			close(began)
		}()
		for asks := 0; asks < 3; {
			b, _ := os.ReadFile(filepath.Join(m.dir, "asks"))
			asks = len(b) / len("x\n")
			select {
			case <-began:
				t.Fatalf("it begins while the server says %s", c.status)
			default:
			}
		}
		if c.stopped {
			stop()
		} else if err := os.Remove(fault); err != nil {
			t.Fatal(err)
		}
		<-began
		stop()
		if err := os.Remove(filepath.Join(m.dir, "asks")); err != nil {
			t.Fatal(err)
		}
	}
	(&running{}).again(t.Context(), "draft-1") // without the service
}

// Where the program is a script, what it runs outlives it and keeps its answer open.
func TestMPSThatDoesNotAnswerIsLeft(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "kept")
	if err := syscall.Mkfifo(kept, 0o600); err != nil {
		t.Fatal(err)
	}
	holder, err := os.OpenFile(kept, os.O_RDWR, 0) // its end ends who waits below
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KEPT", kept)
	cfg, dir := mpsRun(t, strings.Replace(service, ": > asked", `cat "$KEPT"`, 1))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	left := make(chan string, 1)
	go func() {
		_, why := startMPS(ctx, cfg, dir)
		left <- why
	}()
	select {
	case why := <-left:
		if !strings.Contains(why, "deadline exceeded") {
			t.Errorf("a service that does not answer: %q", why)
		}
	case <-time.After(3 * mpsWait):
		t.Error("a service that does not answer is waited for")
	}
	_ = holder.Close()
}
