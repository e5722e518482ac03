package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"penstock/schema"
	"penstock/stages/internal/worker"
)

// Every process says once a second how it is. One that is silent for as long as work may be held without a mark is taken
// for stuck: it could not do the work either.
const (
	leastSilence = 10 * time.Second
	listenEvery  = time.Second
)

// vitals is when each instance was last heard of.
type vitals struct {
	limit time.Duration
	now   func() time.Time
	kill  func(instance string, pid int, why string) // pid 0: whichever runs

	mu     sync.Mutex
	heard  map[string]time.Time
	broker time.Time // when it last answered
	owed   map[string]owed
}

// owed is what is done when a successor of a dead process works.
type owed struct {
	since time.Time
	do    func()
}

func newVitals(ackWait time.Duration, kill func(instance string, pid int, why string)) *vitals {
	return &vitals{limit: max(ackWait, leastSilence), now: time.Now, kill: kill, heard: map[string]time.Time{}, owed: map[string]owed{}}
}

// take is told what an instance says of itself. One that says that it is stuck is ended.
func (v *vitals) take(s schema.StageState) {
	v.mu.Lock()
	v.heard[s.Instance] = v.now()
	if o, ok := v.owed[s.Instance]; ok && s.State == "running" && s.At > o.since.UnixNano() {
		delete(v.owed, s.Instance)
		go o.do()
	}
	v.mu.Unlock()
	if s.State == worker.Stuck {
		v.kill(s.Instance, int(s.PID), "it has been at one piece of work for too long")
	}
}

// gone forgets an instance whose process has ended.
func (v *vitals) gone(instance string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.heard, instance)
}

// onceBack has f called, on a goroutine of its own, when the instance says next that it works.
func (v *vitals) onceBack(instance string, f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.owed[instance] = owed{v.now(), f}
}

// look ends what has been silent for too long. While the broker does not answer, nobody can be heard.
func (v *vitals) look(running []string, brokerAnswers bool) {
	v.mu.Lock()
	now := v.now()
	silent := map[string]time.Duration{}
	if brokerAnswers || v.broker.IsZero() {
		v.broker = now
	}
	for _, name := range running {
		last, ok := v.heard[name]
		switch {
		case name == "broker":
			last = v.broker
		case !ok || !brokerAnswers:
			last = now
			v.heard[name] = now
		}
		if d := now.Sub(last); d > v.limit {
			silent[name] = d
			delete(v.heard, name)
			if name == "broker" {
				v.broker = now
			}
		}
	}
	v.mu.Unlock()
	for name, d := range silent {
		v.kill(name, 0, fmt.Sprintf("it has been silent for %v", d.Round(time.Second)))
	}
}

// listen looks once a second until ctx ends.
func (r *running) listen(ctx context.Context) {
	tick := time.NewTicker(listenEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		short, cancel := context.WithTimeout(ctx, listenEvery)
		err := r.conn.Ping(short)
		cancel()
		r.vitals.look(r.sup.Running(), err == nil)
	}
}

// replace ends a process that is stuck; the supervisor starts it again.
func (r *running) replace(instance string, pid int, why string) {
	if r.sup.Kill(instance, pid) {
		r.note(fmt.Sprintf("%s is replaced: %s", instance, why))
	}
}
