package chaos

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"penstock/schema"
	"penstock/stages/stagestest"
)

var (
	kills = flag.Int("kills", 20, "processes to kill or freeze")
	seed  = flag.Uint64("chaos.seed", 0, "0: by the clock")
	limit = flag.Duration("chaos.limit", 10*time.Minute, "time for the whole run")
)

// frozen is longer than AckWait, so that whatever a frozen process holds is given to others meanwhile.
const (
	ackWait = time.Second
	frozen  = 1500 * time.Millisecond
)

// config is a run of about four steps a disturbance whose weights do not depend on what happens to it.
func config(t *testing.T) schema.Config {
	return stagestest.Config(t, 400, func(c *schema.Config) {
		c.Deterministic = true
		c.Broker.AckWait = ackWait.String()
		c.Save = schema.SaveConfig{Every: 5, Keep: 3}
		c.Train.MaxSteps = max(60, 4**kills)
		c.Train.Epochs = 1 + c.Train.MaxSteps/40
	})
}

// TestKillAnything kills and freezes processes at random while a run goes on, restarts `up` whenever that was killed, and
// expects the ledger and, to the bit, the weights of a run that was left alone.
func TestKillAnything(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	bin, c := bins(t), config(t)

	calm := newRun(t, bin, c)
	if cmd, out := calm.up(ctx); cmd.Wait() != nil {
		t.Fatalf("undisturbed run: %s\n%s", out, calm.logs())
	}
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("-chaos.seed %d", s)
	r := newRun(t, bin, c)
	m := &monkey{run: r, rand: rand.New(rand.NewPCG(s, 1)), done: map[string]int{}}
	watched, stop := context.WithCancel(ctx)
	var commits []time.Time
	watching := make(chan struct{})
	go func() { defer close(watching); commits = r.commits(watched) }()
	err := m.until(ctx, *kills)
	defer stop()
	if err != nil {
		t.Fatalf("%v after %v\n%s\n%s", err, m.done, m.out, r.logs())
	}
	stop()
	<-watching
	p50, p99 := recovery(m.at, commits)
	t.Logf("survived %v; from a disturbance to the next commit p50 %v, p99 %v; last start: %s", m.done, p50, p99, lastLine(m.out.String()))

	for name, x := range map[string]*run{"undisturbed": calm, "disturbed": r} {
		l := x.ledger()
		if l["missing"] != 0 || l["duplicates"] != 0 || l["mismatched"] != 0 || l["rejected"] != 0 || l["windows"] != l["planned"] {
			t.Errorf("%s ledger: %v", name, l)
		}
	}
	if !bytes.Equal(calm.weights(), r.weights()) {
		t.Error("the disturbed run trained other weights")
	}
}

// monkey disturbs a run.
type monkey struct {
	run  *run
	rand *rand.Rand
	cmd  *exec.Cmd
	out  *bytes.Buffer
	done map[string]int // what was done to whom
	at   []time.Time    // when
}

// until disturbs n times, spread over the run, and returns when the run has ended well. It keeps going, with `up` started
// anew, whenever `up` was killed.
func (m *monkey) until(ctx context.Context, n int) error {
	for left := n; ; {
		m.cmd, m.out = m.run.up(ctx)
		ended := make(chan error, 1)
		go func() { ended <- m.cmd.Wait() }()
		killed := false
		for !killed {
			var next <-chan time.Time
			if left > 0 {
				next = time.After(time.Duration(50+m.rand.IntN(600)) * time.Millisecond)
			}
			select {
			case err := <-ended:
				if err != nil {
					return fmt.Errorf("up: %w", err)
				}
				if left > 0 {
					return fmt.Errorf("the run ended with %d disturbances left: give it more steps", left)
				}
				return nil
			case <-next:
				var err error
				if killed, err = m.disturb(); err != nil {
					return err
				}
				left--
			}
		}
		<-ended
		if err := until(ctx, func() bool { return len(m.living()) == 0 }); err != nil {
			return fmt.Errorf("processes outlived up: %w", err)
		}
	}
}

// disturb kills or freezes one process, and reports whether it was `up`.
func (m *monkey) disturb() (up bool, err error) {
	m.at = append(m.at, time.Now())
	pids := m.living()
	names := append(slices.Sorted(maps.Keys(pids)), "up")
	name := names[m.rand.IntN(len(names))]
	if name == "up" {
		m.done["kill up"]++
		return true, m.cmd.Process.Kill()
	}
	stage, _, _ := strings.Cut(name, "-")
	if m.rand.IntN(4) == 0 {
		m.done["freeze "+stage]++
		if syscall.Kill(pids[name], syscall.SIGSTOP) == nil {
			time.AfterFunc(frozen, func() { _ = syscall.Kill(pids[name], syscall.SIGCONT) })
		}
		return false, nil
	}
	m.done["kill "+stage]++
	_ = syscall.Kill(pids[name], syscall.SIGKILL) // it may have ended by itself since
	return false, nil
}

// living returns the stage processes that exist.
func (m *monkey) living() map[string]int {
	alive := map[string]int{}
	for name, pid := range m.run.pids() {
		if pid > 0 && syscall.Kill(pid, 0) == nil {
			alive[name] = pid
		}
	}
	return alive
}

// commits notes when windows commit, until ctx ends.
func (r *run) commits(ctx context.Context) (at []time.Time) {
	size := int64(0)
	for {
		grown := func() bool {
			info, err := os.Stat(filepath.Join(r.dir, "metrics.jsonl"))
			return err == nil && info.Size() > size
		}
		if until(ctx, grown) != nil {
			return at
		}
		if info, err := os.Stat(filepath.Join(r.dir, "metrics.jsonl")); err == nil {
			size = info.Size()
			at = append(at, time.Now())
		}
	}
}

// recovery is how long it took from each disturbance to the next commit.
func recovery(disturbed, commits []time.Time) (p50, p99 time.Duration) {
	var took []time.Duration
	for _, d := range disturbed {
		i, _ := slices.BinarySearchFunc(commits, d, time.Time.Compare)
		if i < len(commits) {
			took = append(took, commits[i].Sub(d))
		}
	}
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return took[len(took)/2].Round(time.Millisecond), took[len(took)*99/100].Round(time.Millisecond)
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
