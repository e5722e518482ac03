package sim

import "container/heap"

// clock runs what is scheduled, in order of virtual time; what is due at one time, in order of scheduling.
type clock struct {
	now    float64 // seconds
	serial uint64
	due    events
}

type event struct {
	at     float64
	serial uint64
	do     func()
}

// after schedules do in so many seconds.
func (c *clock) after(seconds float64, do func()) {
	c.serial++
	heap.Push(&c.due, event{c.now + seconds, c.serial, do})
}

// step runs everything due at the next time, and reports whether there was anything.
func (c *clock) step() bool {
	if len(c.due) == 0 {
		return false
	}
	c.now = c.due[0].at
	for len(c.due) > 0 && c.due[0].at == c.now {
		heap.Pop(&c.due).(event).do()
	}
	return true
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if e[i].at != e[j].at {
		return e[i].at < e[j].at
	}
	return e[i].serial < e[j].serial
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
