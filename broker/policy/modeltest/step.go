package modeltest

import "fmt"

// step is one kind of thing that a process, the broker or chance does without interruption.
type step struct {
	name  string
	fault bool // chance: nothing may depend on its happening
	list  func(m *Model, s *State, add func(a, b int))
	do    func(m *Model, s *State, a, b int) error // an error is a violation
}

// Action is one step that is possible in a state.
type Action struct{ Step, A, B uint8 }

// steps is every kind of step.
var steps []step

func init() {
	for _, list := range [][]step{builderSteps, targetSteps, packerSteps, rankSteps, groupSteps, poolSteps, generationSteps, crashSteps, messageSteps} {
		steps = append(steps, list...)
	}
}

// Actions appends what is possible in s.
func (m *Model) Actions(s *State, to []Action) []Action {
	for i := range steps {
		steps[i].list(m, s, func(a, b int) { to = append(to, Action{uint8(i), uint8(a), uint8(b)}) })
	}
	return to
}

// Do performs an action that is possible in s. An error says which promise of the protocol is broken.
func (m *Model) Do(s *State, a Action) error {
	if err := steps[a.Step].do(m, s, int(a.A), int(a.B)); err != nil {
		return err
	}
	m.tidy(s)
	return m.check(s)
}

// Done reports whether every window has committed and every member has stepped.
func (m *Model) Done(s *State) bool {
	if int(s.led.window) < len(m.Plan) {
		return false
	}
	done := false
	for r := range s.ranks {
		if m.member(s, r) {
			if int(s.ranks[r].window) < len(m.Plan) {
				return false
			}
			done = true
		}
	}
	return done
}

// Drained reports whether the run is complete and everything has been given back: every slot is free, every queue empty.
func (m *Model) Drained(s *State) bool {
	if len(s.roots)+len(s.hops)+len(s.rels) > 0 || !m.Done(s) {
		return false
	}
	for _, u := range s.uses {
		if u.state != free {
			return false
		}
	}
	return true
}

// Describe says in words what an action does in a state.
func (m *Model) Describe(s *State, a Action) string {
	st := steps[a.Step]
	text := fmt.Sprintf("%s %d", st.name, a.A)
	if int(a.B) < len(s.hops) && hopStep(st.name) {
		h := s.hops[a.B]
		text += fmt.Sprintf(": batch %d of window %d", h.batch, m.batches[h.batch].window)
	} else if int(a.B) < len(s.roots) && rootStep(st.name) {
		r := s.roots[a.B]
		text += fmt.Sprintf(": batch %d of window %d", r.batch, m.batches[r.batch].window)
	}
	return text
}
