package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain lets the test binary play a supervised process: its arguments are a little program.
func TestMain(m *testing.M) {
	if os.Getenv("SUPERVISE_TEST_CHILD") == "" {
		goleak.VerifyTestMain(m)
		return
	}
	play(os.Args[1:])
}

func play(words []string) {
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "say":
			i++
			fmt.Println(words[i])
		case "exit":
			code, _ := strconv.Atoi(words[i+1])
			os.Exit(code)
		case "once": // exit with the code unless the file is there, which is then made
			if _, err := os.Stat(words[i+1]); err != nil {
				os.WriteFile(words[i+1], nil, 0o644)
				code, _ := strconv.Atoi(words[i+2])
				os.Exit(code)
			}
			i += 2
		case "deaf":
			signal.Ignore(syscall.SIGTERM)
		case "wait":
			term := make(chan os.Signal, 1)
			signal.Notify(term, syscall.SIGTERM)
			fmt.Println("waiting")
			<-term
			os.Exit(0)
		case "hang":
			fmt.Println("hanging")
			time.Sleep(time.Hour)
		case "supervise": // runs a hanging child of its own and says its process id
			s := New(Options{PIDs: func(pids map[string]int) error {
				_, err := fmt.Println(pids["grandchild"])
				return err
			}})
			if err := s.Start(script("grandchild", words[i+1], "hang")); err != nil {
				panic(err)
			}
			time.Sleep(time.Hour)
		}
	}
}

func script(name, dir string, words ...string) Process {
	return Process{
		Name: name, Path: os.Args[0], Args: words,
		Env: []string{"SUPERVISE_TEST_CHILD=1"},
		Log: filepath.Join(dir, name+".log"),
	}
}

func newTest(t *testing.T, o Options) *Supervisor {
	o.Permanent = 78
	if o.Backoff == 0 {
		o.Backoff, o.MaxBackoff = time.Millisecond, 4*time.Millisecond
	}
	if o.Grace == 0 {
		o.Grace = 10 * time.Second
	}
	s := New(o)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestExitZeroIsDone(t *testing.T) {
	s := newTest(t, Options{})
	if err := s.Start(script("a", t.TempDir(), "exit", "0")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done("a"):
	case err := <-s.Failed():
		t.Fatal(err)
	}
}

func TestPermanentCodeIsNotRestarted(t *testing.T) {
	var exits []Exit
	s := newTest(t, Options{Restarts: 5, OnExit: func(e Exit) { exits = append(exits, e) }})
	if err := s.Start(script("target-1", t.TempDir(), "say", "first", "say", "no such model", "exit", "78")); err != nil {
		t.Fatal(err)
	}
	err := <-s.Failed()
	var f *Failure
	if !errors.As(err, &f) || f.Name != "target-1" || f.Code != 78 {
		t.Fatalf("failure = %#v", err)
	}
	if got := strings.Join(f.Tail, "|"); got != "first|no such model" {
		t.Fatalf("tail = %q", got)
	}
	for _, want := range []string{"target-1", "exit status 78", "no such model"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	if len(exits) != 1 {
		t.Fatalf("%d exits, want 1", len(exits))
	}
}

func TestRestartsUntilTheLimit(t *testing.T) {
	var mu sync.Mutex
	exits := 0
	s := newTest(t, Options{Restarts: 3, OnExit: func(e Exit) {
		mu.Lock()
		defer mu.Unlock()
		if exits++; e.Code != 9 {
			t.Errorf("exit %+v", e)
		}
	}})
	if err := s.Start(script("a", t.TempDir(), "exit", "9")); err != nil {
		t.Fatal(err)
	}
	if err := <-s.Failed(); !strings.Contains(err.Error(), "died 4 times") {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if exits != 4 {
		t.Fatalf("%d exits, want 4", exits)
	}
}

func TestRestartMends(t *testing.T) {
	dir := t.TempDir()
	s := newTest(t, Options{Restarts: 1})
	if err := s.Start(script("a", dir, "once", filepath.Join(dir, "mark"), "3", "exit", "0")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done("a"):
	case err := <-s.Failed():
		t.Fatal(err)
	}
}

func TestProgressForgivesDeaths(t *testing.T) {
	exits := make(chan Exit)
	s := newTest(t, Options{Restarts: 1, OnExit: func(e Exit) { exits <- e }})
	if err := s.Start(script("a", t.TempDir(), "exit", "9")); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		<-exits
		s.Progress(true)
	}
	// Two more deaths, the last of which is one too many.
	for {
		select {
		case <-exits:
		case err := <-s.Failed():
			if !strings.Contains(err.Error(), "died 2 times") {
				t.Fatal(err)
			}
			return
		}
	}
}

func TestFailingAtTheSamePlaceEnds(t *testing.T) {
	exits := make(chan Exit, 16)
	s := newTest(t, Options{Restarts: 2, OnExit: func(e Exit) { exits <- e }})
	if err := s.Start(script("a", t.TempDir(), "exit", "9")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		<-exits
		s.Progress(false)
	}
	select {
	case e := <-exits:
		t.Fatalf("it was started again: %+v", e)
	case err := <-s.Failed():
		if !strings.Contains(err.Error(), "failed 3 times before the run got any further") {
			t.Fatal(err)
		}
	}
}

// TestBeingKilledAtTheSamePlaceEnds has a process killed again and again, after each of which the work comes as far as said:
// what kills it from outside is told from what is stuck, and forgiven only when the work gets further than ever.
func TestBeingKilledAtTheSamePlaceEnds(t *testing.T) {
	outside := func(_ *Supervisor, pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }
	stuck := func(s *Supervisor, pid int) { s.Kill("a", pid) }
	again, further := func(s *Supervisor) { s.Progress(false) }, func(s *Supervisor) { s.Progress(true) }
	for _, c := range []struct {
		name  string
		kill  func(*Supervisor, int)
		after func(*Supervisor)
		most  int // kills that a process survives; 0: any number
		want  string
	}{
		{"killed", outside, again, 3, "killed 4 times before the run got any further; something outside kills it, as"},
		{"killed, and further", outside, further, 0, ""},
		{"killed without progress", outside, func(*Supervisor) {}, 2, "died 3 times without progress in between; something outside kills it, as"},
		{"stuck", stuck, again, 2, "failed 3 times before the run got any further; log"},
		{"stuck, and further", stuck, further, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			exits, pids := make(chan Exit), make(chan int, 64)
			s := newTest(t, Options{
				Restarts: 2, Kills: 3,
				OnExit: func(e Exit) { exits <- e },
				PIDs:   func(m map[string]int) error { pids <- m["a"]; return nil },
			})
			if err := s.Start(script("a", t.TempDir(), "wait")); err != nil {
				t.Fatal(err)
			}
			for n := 0; n < 8; n++ {
				select {
				case pid := <-pids:
					c.kill(s, pid)
				case err := <-s.Failed():
					if n != c.most+1 || c.want == "" || !strings.Contains(err.Error(), c.want) {
						t.Errorf("after %d kills: %v", n, err)
					}
					return
				}
				<-pids // none
				<-exits
				c.after(s)
			}
			<-pids
			if c.want != "" {
				t.Errorf("it is started again and again")
			}
			go func() { <-exits }() // of the end
		})
	}
}

// A process that ends with its device, as all on it do when one of them is killed, is given up no sooner than one that is killed.
func TestEndingWithItsDevice(t *testing.T) {
	exits := 0
	s := newTest(t, Options{Device: 79, Restarts: 2, Kills: 5, OnExit: func(Exit) { exits++ }})
	if err := s.Start(script("target-1", t.TempDir(), "exit", "79")); err != nil {
		t.Fatal(err)
	}
	if err := <-s.Failed(); exits != 6 || !strings.Contains(err.Error(), "its device failed 6 times before the run got any further") {
		t.Errorf("after %d exits: %v", exits, err)
	}
}

func TestKilledProcessIsReportedThenRestarted(t *testing.T) {
	dir := t.TempDir()
	pids := make(chan int, 16)
	exits := make(chan Exit, 16)
	s := newTest(t, Options{
		Restarts: 1, Kills: 1,
		OnExit: func(e Exit) { exits <- e },
		PIDs:   func(m map[string]int) error { pids <- m["a"]; return nil },
	})
	if err := s.Start(script("a", dir, "wait")); err != nil {
		t.Fatal(err)
	}
	first := <-pids
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := <-exits; e.PID != first || e.Signal != syscall.SIGKILL {
		t.Fatalf("exit = %+v", e)
	}
	if gone := <-pids; gone != 0 {
		t.Fatalf("process id %d after death", gone)
	}
	if second := <-pids; second == 0 || second == first {
		t.Fatalf("second process id %d, first %d", second, first)
	}
}

func TestStopTerminatesThenKills(t *testing.T) {
	dir := t.TempDir()
	meek, deaf := newTest(t, Options{}), newTest(t, Options{Grace: 100 * time.Millisecond})
	if err := meek.Start(script("meek", dir, "wait")); err != nil {
		t.Fatal(err)
	}
	if err := deaf.Start(script("deaf", dir, "deaf", "hang")); err != nil {
		t.Fatal(err)
	}
	waitForLine(t, filepath.Join(dir, "meek.log"), "waiting")
	waitForLine(t, filepath.Join(dir, "deaf.log"), "hanging")
	if err := meek.Stop("meek"); err != nil {
		t.Fatal(err)
	}
	<-meek.Done("meek")
	if err := deaf.Stop(); err == nil || !strings.Contains(err.Error(), "deaf did not end") {
		t.Fatalf("stop = %v", err)
	}
	<-deaf.Done("deaf")
}

func TestMissingExecutable(t *testing.T) {
	s := newTest(t, Options{})
	dir := t.TempDir()
	p := Process{Name: "a", Path: filepath.Join(dir, "none"), Log: filepath.Join(dir, "a.log")}
	if err := s.Start(p); err == nil || !strings.Contains(err.Error(), "start a") {
		t.Fatalf("err = %v", err)
	}
	if s.Done("a") != nil {
		t.Fatal("the instance is supervised although it never started")
	}
}

func TestChildDiesWithItsSupervisor(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "supervise", dir)
	cmd.Env = append(os.Environ(), "SUPERVISE_TEST_CHILD=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	waitForLine(t, filepath.Join(dir, "grandchild.log"), "hanging")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(b), ") Z ") // gone, or a zombie that nobody reaps here
	})
}

func waitForLine(t *testing.T, path, want string) {
	t.Helper()
	eventually(t, func() bool {
		b, _ := os.ReadFile(path)
		return strings.Contains(string(b), want)
	})
}

// eventually polls for a state that has no event to wait on.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(20 * time.Second); !ok(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the expected state did not come")
		}
	}
}

func TestFailureSpeaksWithoutTheLogsForm(t *testing.T) {
	for line, want := range map[string]string{
		`time=2026-01-02T03:04:05Z level=ERROR msg=failed instance=batch err="prepare data: \"x.jsonl\": no rows"`: `prepare data: "x.jsonl": no rows`,
		`time=2026-01-02T03:04:05Z level=ERROR msg=failed instance=batch err=EOF`:                                  "EOF",
		"panic: out of range": "panic: out of range",
	} {
		if got := spoken(line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
