package page

import (
	"fmt"
	"strings"
	"time"

	"penstock/stages/internal/account"
)

const (
	starving   = 0.5 // share of waiting from which an instance is worth a word
	overCells  = 15  // seconds that the shares are taken over
	stuckAfter = 30 * time.Second
	stuckSteps = 10 // or as many usual steps, if that is longer
	silent     = 10.0
)

// judge says whether a run is healthy. It remembers when the last window committed.
type judge struct {
	windows uint32
	gen     uint32
	since   time.Time
}

// judge returns the run in one sentence: what is wrong, or who is the bottleneck and who waits, and why.
func (j *judge) judge(now time.Time, s State) Health {
	if j.since.IsZero() || s.Windows != j.windows || s.Gen != j.gen {
		j.windows, j.gen, j.since = s.Windows, s.Gen, now
	}
	switch {
	case s.Done:
		return Health{"ok", fmt.Sprintf("Finished: %d steps.", s.Windows)}
	case s.Windows == 0 && now.Sub(j.since) < 4*stuckAfter:
		return Health{"ok", "Starting: " + pending(s)}
	case s.Total > 0 && s.Windows >= s.Total:
		return Health{"ok", "All steps have committed: exporting and measuring the drafter."}
	}
	usual := time.Duration(s.Curves.StepSeconds * float64(time.Second))
	if quiet := now.Sub(j.since); quiet > max(stuckAfter, stuckSteps*usual) {
		text, _ := waiting(s)
		return Health{"bad", fmt.Sprintf("Stuck: no step for %d s. %s", int(quiet.Seconds()), text)}
	}
	var gone []string
	for _, st := range s.Stages {
		if st.Age > silent && st.State != "done" {
			gone = append(gone, st.Instance)
		}
	}
	if len(gone) > 0 {
		return Health{"bad", "No word from " + strings.Join(gone, ", ") + "."}
	}
	text, starved := waiting(s)
	if s.Dead > 0 {
		return Health{"warn", fmt.Sprintf("Rejected batches: %d. %s", s.Dead, text)}
	}
	if s.Skipped > 0 {
		return Health{"warn", fmt.Sprintf("Skipped steps: %d. %s", s.Skipped, text)}
	}
	if starved {
		return Health{"warn", text}
	}
	return Health{"ok", text}
}

func pending(s State) string {
	var waits []waiters
	for _, st := range s.Stages {
		if st.State == "waiting" && st.Waiting != "" {
			waits = joined(waits, st.Instance, st.Waiting, 1)
		}
	}
	var words []string
	for _, w := range waits {
		verb := "waits"
		if w.n > 1 {
			verb = "wait"
		}
		words = append(words, w.name()+" "+verb+" for "+w.cause)
	}
	if len(words) == 0 {
		return "the stages begin to work."
	}
	return strings.Join(words, "; ") + "."
}

// waiting names the busiest instance and the causes that the others wait for, and reports whether everybody waits.
func waiting(s State) (text string, starved bool) {
	busiest, least := "", 2.0
	var idle []waiters
	for _, p := range s.Timeline.Processes {
		if p.Process == "batch" || len(p.Shares) == 0 { // the builder waits by design
			continue
		}
		share, cause := idleShare(p)
		if share < least {
			busiest, least = p.Process, share
		}
		if share >= starving {
			idle = joined(idle, p.Process, cause, share)
		}
	}
	var words []string
	for _, w := range idle {
		words = append(words, fmt.Sprintf("%s %d %% (%s)", w.name(), int(100*w.sum/float64(w.n)+0.5), w.cause))
	}
	who := strings.Join(words, ", ")
	switch {
	case busiest == "":
		return "No timeline yet.", false
	case least >= starving:
		return "Nobody is busy. Waiting: " + who + ".", true
	case len(idle) == 0:
		return fmt.Sprintf("%s is the bottleneck, idle %d %%; nobody waits for long.", busiest, int(100*least+0.5)), false
	}
	return fmt.Sprintf("%s is the bottleneck, idle %d %%. Waiting: %s.", busiest, int(100*least+0.5), who), false
}

// waiters are the instances of a stage that wait for the same cause.
type waiters struct {
	first, stage, cause string
	n                   int
	sum                 float64 // of their shares
}

// joined adds an instance to those that wait as it does.
func joined(list []waiters, instance, cause string, share float64) []waiters {
	stage, _, _ := strings.Cut(instance, "-")
	for i, w := range list {
		if w.stage == stage && w.cause == cause {
			list[i].n, list[i].sum = w.n+1, w.sum+share
			return list
		}
	}
	return append(list, waiters{instance, stage, cause, 1, share})
}

// name is that of the one instance, or says how many of the stage they are.
func (w waiters) name() string {
	if w.n == 1 {
		return w.first
	}
	return fmt.Sprintf("%d %ss", w.n, w.stage)
}

// idleShare returns the part of the latest cells that a process waited, and its main cause.
func idleShare(p Process) (share float64, cause string) {
	most, total := 0.0, 0.0
	for activity, cells := range p.Shares {
		sum := 0.0
		for _, x := range cells[max(0, len(cells)-overCells):] {
			sum += x
		}
		if activity == account.Starting {
			continue
		}
		total += sum
		if account.Working(activity) {
			continue
		}
		share += sum
		if sum > most {
			most, cause = sum, activity
		}
	}
	if total == 0 {
		return 1, "starting"
	}
	return share / total, cause
}
