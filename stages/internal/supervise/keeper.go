package supervise

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// killedOutside says what to look at when something outside kills a process.
const killedOutside = "; something outside kills it, as the kernel does when memory runs out: look at `dmesg`, the memory of the host, the limit of the cgroup"

// keeper keeps one process running until it is done, has failed for good, or is stopped.
type keeper struct {
	s    *Supervisor
	p    Process
	done chan struct{}   // closed when keep returns without failure
	gone chan struct{}   // closed when keep returns
	ctx  context.Context // ended by stop
	quit context.CancelFunc

	mu       sync.Mutex
	child    *child // nil between death and restart
	stopping bool
	tally    tally
}

// tally counts the deaths of a process.
type tally struct {
	deaths   int // since the last progress, but for those by the device
	failures int // those that are its own doing, since the work was further than ever
	kills    int // and those in which something outside killed it
	device   int // and those by the device: each death of another on it may bring one
}

func (t *tally) add(e Exit, outside bool, o Options) {
	switch {
	case e.Code != 0 && e.Code == o.Device:
		t.device++
		return
	case outside:
		t.kills++
	default:
		t.failures++
	}
	t.deaths++
}

// excess says of what there was too much, "" if of nothing.
func (t tally) excess(o Options) string {
	switch {
	case t.deaths > o.Restarts:
		return fmt.Sprintf("it died %d times without progress in between", t.deaths)
	case t.failures > o.Restarts:
		return fmt.Sprintf("it failed %d times before the run got any further", t.failures)
	case t.kills > o.Kills:
		return fmt.Sprintf("it was killed %d times before the run got any further", t.kills)
	case t.device > o.Kills:
		return fmt.Sprintf("its device failed %d times before the run got any further", t.device)
	}
	return ""
}

func newKeeper(s *Supervisor, p Process) *keeper {
	ctx, quit := context.WithCancel(context.Background())
	return &keeper{s: s, p: p, done: make(chan struct{}), gone: make(chan struct{}), ctx: ctx, quit: quit}
}

// start runs the process once. It returns nil, nil when the keeper is being stopped.
func (k *keeper) start() (*child, error) {
	c, err := k.fork()
	if c != nil {
		k.s.running(k.p.Name, c.pid())
	}
	return c, err
}

func (k *keeper) fork() (*child, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopping {
		return nil, nil
	}
	c, err := k.s.fork.start(k.p)
	k.child = c
	return c, err
}

// keep waits for c, restarts it where the rules say so, and returns when nothing is left to do.
func (k *keeper) keep(c *child) {
	defer close(k.gone)
	for {
		exit := c.wait(k.p)
		k.mu.Lock()
		k.child = nil
		stopping := k.stopping
		outside := exit.Signal == syscall.SIGKILL && !c.stuck
		k.tally.add(exit, outside, k.s.o)
		tally := k.tally
		k.mu.Unlock()
		exit.Stopped = stopping

		k.s.running(k.p.Name, 0)
		if k.s.o.OnExit != nil {
			k.s.o.OnExit(exit)
		}
		switch {
		case stopping || exit.Code == 0:
			close(k.done)
			return
		case exit.Code == k.s.o.Permanent:
			k.s.fail(&Failure{Exit: exit, Reason: "it cannot run as configured"})
			return
		}
		if why := tally.excess(k.s.o); why != "" {
			if outside {
				why += killedOutside
			}
			k.s.fail(&Failure{Exit: exit, Reason: why})
			return
		}
		var err error
		if c, err = k.restart(max(tally.deaths, tally.failures, tally.device)); err != nil {
			k.s.fail(fmt.Errorf("restart %s: %w", k.p.Name, err))
			return
		}
		if c == nil {
			close(k.done)
			return
		}
	}
}

// restart starts the process again after the delay that its deaths have earned.
func (k *keeper) restart(deaths int) (*child, error) {
	delay := k.s.o.Backoff
	for i := 1; i < deaths && delay < k.s.o.MaxBackoff; i++ {
		delay *= 2
	}
	timer := time.NewTimer(min(delay, k.s.o.MaxBackoff))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-k.ctx.Done():
		return nil, nil
	}
	if k.s.o.Again != nil {
		k.s.o.Again(k.ctx, k.p.Name)
	}
	return k.start()
}

func (k *keeper) forgive(all bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tally.deaths = 0
	if all {
		k.tally = tally{}
	}
}

func (k *keeper) kill(pid int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.child == nil || pid != 0 && k.child.pid() != pid {
		return false
	}
	k.child.stuck = true
	k.child.signal(syscall.SIGKILL)
	return true
}

func (k *keeper) stop(grace time.Duration) error {
	k.mu.Lock()
	k.stopping = true
	k.quit()
	c := k.child
	k.mu.Unlock()
	if c != nil {
		c.signal(syscall.SIGTERM)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-k.gone:
		return nil
	case <-timer.C:
	}
	if c != nil {
		c.signal(syscall.SIGKILL)
	}
	<-k.gone
	return fmt.Errorf("%s did not end within %s and was killed", k.p.Name, grace)
}
