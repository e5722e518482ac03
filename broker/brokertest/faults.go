package brokertest

import (
	"strings"
	"sync"

	"penstock/broker"
)

// Faults is a script of faults for one connection: pass its Fault method in the options.
type Faults struct {
	mu    sync.Mutex
	rules []*rule
}

type rule struct {
	op     broker.Op
	prefix string
	left   int
	then   broker.Outcome
	hold   <-chan struct{}
	hits   int
}

// Next makes the next n operations of a kind, on subjects that begin with prefix, end as then says; -1 is all of them.
func (f *Faults) Next(n int, op broker.Op, prefix string, then broker.Outcome) {
	f.add(&rule{op: op, prefix: prefix, left: n, then: then})
}

// Delay holds the next n such operations until release is closed.
func (f *Faults) Delay(n int, op broker.Op, prefix string, release <-chan struct{}) {
	f.add(&rule{op: op, prefix: prefix, left: n, hold: release})
}

func (f *Faults) add(r *rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, r)
}

// Hits returns how many operations of a kind a rule has met.
func (f *Faults) Hits(op broker.Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.rules {
		if r.op == op {
			n += r.hits
		}
	}
	return n
}

// Fault is a [broker.Fault]. The first rule that matches and is not used up decides.
func (f *Faults) Fault(op broker.Op, subject string) broker.Outcome {
	r := f.match(op, subject)
	if r == nil {
		return broker.Pass
	}
	if r.hold != nil {
		<-r.hold
	}
	return r.then
}

func (f *Faults) match(op broker.Op, subject string) *rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.op == op && strings.HasPrefix(subject, r.prefix) && r.left != 0 {
			r.left--
			r.hits++
			return r
		}
	}
	return nil
}
