package model

import (
	"fmt"
	"math"
)

// Schedule is the learning rate over a run.
type Schedule struct {
	Kind     string  // cosine, linear, constant or wsd after the warm-up
	Peak     float64 // highest rate
	Warmup   int     // steps
	Cooldown int     // steps of wsd's decline: stable at Peak before, linear towards 0 in them
	Steps    int     // of the whole run
}

// Check returns an error for a schedule that is not known.
func (s Schedule) Check() error {
	switch {
	case s.Kind != "cosine" && s.Kind != "linear" && s.Kind != "constant" && s.Kind != "wsd":
		return fmt.Errorf("schedule %q: want cosine, linear, constant or wsd", s.Kind)
	case s.Warmup < 0 || s.Steps < 1 || s.Warmup > s.Steps:
		return fmt.Errorf("schedule: %d warm-up steps of %d", s.Warmup, s.Steps)
	}
	return nil
}

// LR is the rate of the step with number step, counted from 0. The warm-up rises by equal parts to Peak, which its last
// step uses; the rest falls from Peak towards 0, which the step after the last would use. A schedulers' "last epoch" in
// torch is the same number.
func (s Schedule) LR(step int) float64 {
	if step < s.Warmup {
		return s.Peak * float64(step+1) / float64(s.Warmup)
	}
	if step >= s.Steps && s.Kind != "constant" {
		return 0
	}
	part := float64(step-s.Warmup) / float64(max(s.Steps-s.Warmup, 1))
	switch s.Kind {
	case "cosine":
		return s.Peak * (1 + math.Cos(math.Pi*part)) / 2
	case "linear":
		return s.Peak * (1 - part)
	case "wsd":
		return s.Peak * min(1, float64(s.Steps-step)/float64(max(s.Cooldown, 1)))
	}
	return s.Peak
}
