package modeltest

import (
	"fmt"
	"math/rand/v2"
)

// Path is one run at random.
type Path struct {
	Steps  int
	Faults int
	Err    error // which promise is broken, nil if the run completed
	Last   []string
}

// keep is how many of a path's latest steps are described.
const keep = 40

// Walk follows one path at random until the run is complete and everything has been given back. Chance has its share in
// one step of faultEvery until then. A run that is not complete after limit steps has failed.
func Walk(m *Model, rng *rand.Rand, faultEvery, limit int) Path {
	var p Path
	s := m.Start()
	var actions, ours, chance []Action
	for ; p.Steps < limit; p.Steps++ {
		if m.Drained(s) {
			return p
		}
		done := m.Done(s)
		actions, ours, chance = m.Actions(s, actions[:0]), ours[:0], chance[:0]
		for _, a := range actions {
			if steps[a.Step].fault {
				chance = append(chance, a)
			} else {
				ours = append(ours, a)
			}
		}
		if len(ours) == 0 {
			if p.Err = ErrDeadlock; done {
				p.Err = ErrRemains
			}
			return p
		}
		from := ours
		if len(chance) > 0 && !done && rng.IntN(faultEvery) == 0 {
			from = chance
			p.Faults++
		}
		a := from[rng.IntN(len(from))]
		if p.Last = append(p.Last, m.Describe(s, a)); len(p.Last) > keep {
			p.Last = p.Last[1:]
		}
		if p.Err = m.Do(s, a); p.Err != nil {
			return p
		}
	}
	p.Err = fmt.Errorf("the run is not complete after %d steps", limit)
	return p
}
