package draft

import (
	"errors"
	"fmt"

	"penstock/stages/internal/lineage"
	"penstock/stages/internal/rundir"
)

// lead is what the one rank has that opens the generation, takes others in and writes the run's files.
type lead struct {
	lock  *rundir.Lock
	lines *lineage.Writer
}

// past is a committed window as the files tell it.
type past struct {
	line   lineage.Line
	metric metric
}

// keptPast is how many windows a rank remembers that does not lead. A leader writes each window before it prepares the
// next, so that another one finds at most a few missing.
const keptPast = 64

// takeLead reports whether this rank leads from now on.
func (t *trainer) takeLead() (bool, error) {
	lock, err := t.w.Run.LockLead()
	if errors.Is(err, rundir.ErrLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	lines, err := lineage.Open(t.w.Run.Ledger())
	if err != nil {
		return false, errors.Join(err, lock.Release())
	}
	t.lead = &lead{lock, lines}
	return true, nil
}

func (t *trainer) dropLead() error {
	if t.lead == nil {
		return nil
	}
	err := errors.Join(t.lead.lines.Close(), t.lead.lock.Release())
	t.lead = nil
	return err
}

// inherit takes the lead if nobody has it, and writes what the former leader has not.
func (t *trainer) inherit() error {
	if t.lead != nil {
		return nil
	}
	if ok, err := t.takeLead(); err != nil || !ok {
		return err
	}
	t.w.Log.Info("leading", "gen", t.gen, "window", t.state.Window)
	lines, err := lineage.Read(t.w.Run.Ledger())
	if err != nil {
		return err
	}
	next := uint32(0)
	for _, l := range lines {
		if l.Gen == t.gen && l.Open {
			next = l.Window
		} else if l.Gen == t.gen {
			next = l.Window + 1
		}
	}
	for _, p := range t.past {
		if p.line.Window != next {
			continue
		}
		if err := t.write(p); err != nil {
			return err
		}
		next++
	}
	t.past = nil
	if next != t.state.Window {
		return fmt.Errorf("the ledger file of %s ends before window %d, this rank knows windows from %d on", t.w.Run.Path(), next, t.state.Window)
	}
	return nil
}

// publish has a committed window written, by this rank if it leads.
func (t *trainer) publish(p past) error {
	t.report.remember(p.metric)
	if t.lead != nil {
		return t.write(p)
	}
	t.past = append(t.past, p)
	if len(t.past) > keptPast {
		t.past = t.past[1:]
	}
	return nil
}

func (t *trainer) write(p past) error {
	if err := t.lead.lines.Append(p.line); err != nil {
		return err
	}
	return t.report.window(p.metric, t.state)
}
