package chaos

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
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
	kills    = flag.Int("kills", 20, "processes to kill or freeze")
	seed     = flag.Uint64("chaos.seed", 0, "0: by the clock")
	binaries = flag.String("chaos.bin", "", "folder of the binaries; empty: they are built")
	limit    = flag.Duration("chaos.limit", 4*time.Minute, "time for one test; go test ends all of them after ten minutes")
)

// frozen is longer than AckWait, so that whatever a frozen process holds is given to others meanwhile.
const (
	ackWait = time.Second
	frozen  = 1500 * time.Millisecond
)

// Between two disturbances are leastPause and up to as much more as pauses.
const leastPause, pauses = 50 * time.Millisecond, 600 * time.Millisecond

// TestKillAnything kills and freezes processes at random while a run goes on, restarts `up` whenever that was killed, and
// expects the ledger and, to the bit, the weights of a run that was left alone. With two ranks it does so half as often.
func TestKillAnything(t *testing.T) {
	bin := bins(t)
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("-chaos.seed %d", s)
	for _, c := range []struct{ ranks, kills int }{{1, *kills}, {2, *kills / 2}} {
		t.Run(fmt.Sprintf("ranks %d", c.ranks), func(t *testing.T) { disturbed(ctx, t, bin, c.ranks, c.kills, s) })
	}
}

// disturbed is a run of about four steps a disturbance whose weights do not depend on what happens to it.
func disturbed(ctx context.Context, t *testing.T, bin string, ranks, kills int, seed uint64) {
	c := stagestest.Config(t, 400, func(c *schema.Config) {
		c.Deterministic = true
		c.Draft.Ranks = ranks
		c.Window.Batches = 4
		c.Broker.AckWait = ackWait.String()
		c.Save = schema.SaveConfig{Every: 5, Keep: 3}
		c.Train.MaxSteps = max(40, 4*kills)
		c.Train.Epochs = 1 + c.Train.MaxSteps/30
	})
	calm := newRun(t, bin, c)
	calm.up(ctx).well()
	r := newRun(t, bin, c)
	m := &monkey{run: r, rand: rand.New(rand.NewPCG(seed, uint64(ranks))), done: map[string]int{}}
	watched, stop := context.WithCancel(ctx)
	var commits []time.Time
	watching := make(chan struct{})
	go func() { defer close(watching); commits = r.commits(watched) }()
	err := m.until(ctx, kills, c.Train.MaxSteps)
	stop()
	<-watching
	if err != nil {
		t.Fatalf("%v after %v\n%s\n%s", err, m.done, m.said(), r.logs(12))
	}
	p50, p99 := recovery(m.at, commits)
	t.Logf("survived %v; from a disturbance to the next commit p50 %v, p99 %v; last start: %s", m.done, p50, p99, lastLine(m.said()))

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
	up   *up
	done map[string]int // what was done to whom
	at   []time.Time    // when
}

// said is what the last start of `up` printed.
func (m *monkey) said() string {
	if !m.up.ended() {
		return "up still runs"
	}
	return m.up.out.String()
}

// until disturbs n times, spread over a run of so many windows, and returns when the run has ended well. It keeps going,
// with `up` started anew, whenever `up` was killed.
func (m *monkey) until(ctx context.Context, n, windows int) error {
	for {
		m.up = m.run.up(ctx)
		for killed := false; !killed; {
			began, pause := time.Now(), leastPause+time.Duration(m.rand.Int64N(int64(pauses)))
			// In time for the last to come before the run ends, however fast it is.
			late := len(m.at) * windows * 3 / 4 / n
			due := func() bool {
				waited := time.Since(began)
				return m.up.ended() || len(m.at) < n && (waited > pause || waited > leastPause && m.run.windows() > late)
			}
			if err := until(ctx, due); err != nil {
				return err
			}
			if !m.up.ended() {
				killed = m.disturb()
				continue
			}
			if m.up.err != nil {
				return fmt.Errorf("up: %w", m.up.err)
			}
			if left := n - len(m.at); left > 0 {
				return fmt.Errorf("the run ended with %d disturbances left: give it more steps", left)
			}
			return nil
		}
		<-m.up.done
		if err := until(ctx, func() bool { return len(m.living()) == 0 }); err != nil {
			return fmt.Errorf("processes outlived up: %w", err)
		}
	}
}

// disturb kills or freezes one process, and reports whether it killed `up`. One that has ended meanwhile is left alone, and so
// is `up` before it has started a stage.
func (m *monkey) disturb() (over bool) {
	pids := m.living()
	if len(pids) < 2 { // the broker alone
		return false
	}
	names := append(slices.Sorted(maps.Keys(pids)), "up")
	name, sig, what := names[m.rand.IntN(len(names))], syscall.SIGKILL, "kill "
	if m.rand.IntN(4) == 0 {
		sig, what = syscall.SIGSTOP, "freeze "
	}
	pid := pids[name]
	if name == "up" {
		pid = m.up.cmd.Process.Pid
	}
	if m.up.ended() || !m.run.owns(pid) || syscall.Kill(pid, sig) != nil {
		return false
	}
	if sig == syscall.SIGSTOP {
		time.AfterFunc(frozen, func() {
			if m.run.owns(pid) {
				_ = syscall.Kill(pid, syscall.SIGCONT)
			}
		})
	}
	stage, _, _ := strings.Cut(name, "-")
	m.done[what+stage]++
	m.at = append(m.at, time.Now())
	return name == "up" && sig == syscall.SIGKILL
}

// living returns the stage processes that exist.
func (m *monkey) living() map[string]int {
	alive := map[string]int{}
	for name, pid := range m.run.pids() {
		if m.run.owns(pid) {
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
