package modeltest

import (
	"errors"
	"fmt"
	"hash/maphash"
	"time"
)

// Result is what an exploration found.
type Result struct {
	States, Transitions int
	Depth               int
	Complete            int // states in which the run is complete and everything has been given back
	Elapsed             time.Duration
	Failure             *Failure // nil if every promise is kept
}

func (r Result) String() string {
	return fmt.Sprintf("%d states, %d transitions, %d deep, %.0f states/s", r.States, r.Transitions, r.Depth, float64(r.States)/r.Elapsed.Seconds())
}

// Failure is a shortest way to a state in which a promise is broken.
type Failure struct {
	Err   error
	Steps []string
}

// What keeps a run from completing.
var (
	ErrDeadlock = errors.New("nobody can do anything, and the run is not complete")
	ErrLivelock = errors.New("whatever is done, the run never completes")
	ErrRemains  = errors.New("the run is complete, and something is never given back")
	ErrTooLarge = errors.New("more states than allowed")
)

// explorer keeps of each state a hash, the state before it and the action between them.
type explorer struct {
	m     *Model
	seed  maphash.Seed
	index map[uint64]uint32
	from  []uint32
	by    []Action
	ways  []uint32 // of each state in turn, where steps that are not chance lead
	first []uint32 // of each state, its first in ways
	done  []uint32 // complete and cleared up
	over  []bool   // of each state, whether the run is complete
	buf   []byte
}

// Explore visits every state that can be reached, breadth first, and then asks of each whether the run can still complete,
// and give back every slot and empty every queue, without the help of chance. With more than limit states it gives up with ErrTooLarge.
//
// States are told apart by 64-bit hashes: of five million states, two are taken for one with a probability of 10^-6.
func Explore(m *Model, limit int) Result {
	x := &explorer{m: m, seed: maphash.MakeSeed(), index: map[uint64]uint32{}}
	began := time.Now()
	var res Result
	frontier := []*State{m.Start()}
	x.visit(frontier[0], 0, Action{})
	scratch, actions := &State{}, []Action(nil)
	for id := uint32(0); len(frontier) > 0 && res.Failure == nil; res.Depth++ {
		var next []*State
		for _, s := range frontier {
			x.first = append(x.first, uint32(len(x.ways)))
			if m.Drained(s) {
				x.done, x.over = append(x.done, id), append(x.over, true)
				id++
				continue
			}
			actions = m.Actions(s, actions[:0])
			done := m.Done(s)
			x.over = append(x.over, done)
			for _, a := range actions {
				if done && steps[a.Step].fault { // what is left is to clear up
					continue
				}
				scratch.copyFrom(s)
				res.Transitions++
				if err := m.Do(scratch, a); err != nil {
					res.Failure = &Failure{err, x.trace(id, a)}
					break
				}
				to, known := x.visit(scratch, id, a)
				if !known {
					n := &State{}
					n.copyFrom(scratch)
					next = append(next, n)
				}
				if !steps[a.Step].fault {
					x.ways = append(x.ways, to)
				}
			}
			if res.Failure == nil && len(x.from) > limit {
				res.Failure = &Failure{ErrTooLarge, x.trace(id, Action{})}
			}
			if id++; res.Failure != nil {
				break
			}
		}
		frontier = next
	}
	res.States, res.Complete = len(x.from), len(x.done)
	if res.Failure == nil {
		x.first = append(x.first, uint32(len(x.ways)))
		res.Failure = x.stuck()
	}
	res.Elapsed = time.Since(began)
	return res
}

// visit returns the number of a state and whether it was known.
func (x *explorer) visit(s *State, from uint32, by Action) (uint32, bool) {
	x.buf = s.encode(x.buf[:0])
	h := maphash.Bytes(x.seed, x.buf)
	if id, ok := x.index[h]; ok {
		return id, true
	}
	id := uint32(len(x.from))
	x.index[h] = id
	x.from, x.by = append(x.from, from), append(x.by, by)
	return id, false
}

// stuck looks for the states from which no complete one can be reached.
func (x *explorer) stuck() *Failure {
	n := len(x.from)
	back := make([]uint32, n+1) // counts, then positions
	for _, to := range x.ways {
		back[to+1]++
	}
	for i := range n {
		back[i+1] += back[i]
	}
	at := append([]uint32(nil), back[:n]...)
	into := make([]uint32, len(x.ways))
	for id := range n {
		for _, to := range x.ways[x.first[id]:x.first[id+1]] {
			into[at[to]] = uint32(id)
			at[to]++
		}
	}
	live := make([]bool, n)
	queue := append([]uint32(nil), x.done...)
	for _, id := range queue {
		live[id] = true
	}
	for len(queue) > 0 {
		id := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, from := range into[back[id]:back[id+1]] {
			if !live[from] {
				live[from] = true
				queue = append(queue, from)
			}
		}
	}
	// The dead end that is reached soonest tells more than the step that made it certain.
	for _, kind := range []struct {
		err error
		is  func(id int) bool
	}{
		{ErrRemains, func(id int) bool { return x.over[id] }},
		{ErrDeadlock, func(id int) bool { return x.first[id] == x.first[id+1] }},
		{ErrLivelock, func(int) bool { return true }},
	} {
		for id := range n {
			if !live[id] && kind.is(id) {
				return &Failure{kind.err, x.trace(uint32(id), Action{})}
			}
		}
	}
	return nil
}

// trace describes the way to a state, and one more action if it is not the zero one.
func (x *explorer) trace(id uint32, last Action) []string {
	var way []Action
	if last != (Action{}) {
		way = append(way, last)
	}
	for ; id != 0; id = x.from[id] {
		way = append(way, x.by[id])
	}
	s := x.m.Start()
	var text []string
	for i := len(way) - 1; i >= 0; i-- {
		text = append(text, x.m.Describe(s, way[i]))
		if err := x.m.Do(s, way[i]); err != nil {
			break
		}
	}
	return text
}
