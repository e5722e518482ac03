// Package supervise starts processes, keeps them running and ends them.
//
// A process dies with its supervisor, whatever kills that. One that exits 0 is done; one that exits with the
// permanent code has said that starting it again is pointless; any other death is followed by a restart with
// growing delay, until it has died too often without progress in between, or too often at the same place.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Process says how to run one instance.
type Process struct {
	Name string // of the instance, unique in the supervisor
	Path string // executable
	Args []string
	Env  []string // added to the supervisor's own
	Log  string   // file that standard output and error are appended to
}

// Options are the rules of a Supervisor.
type Options struct {
	Permanent  int           // exit code that is not followed by a restart
	Device     int           // that of one whose device has failed, with another process on it maybe; 0: none
	Restarts   int           // of one instance without what forgives in between, see Progress; one more death ends in a Failure
	Kills      int           // the same for deaths by somebody else's SIGKILL at the same place, and for those by the device
	Backoff    time.Duration // delay of the first restart; doubles with each death that no progress separates
	MaxBackoff time.Duration
	Grace      time.Duration // between SIGTERM and SIGKILL in Stop

	// OnExit, if set, sees every exit before the instance is started again. Calls for different instances may overlap.
	OnExit func(Exit)
	// Again, if set, is called before an instance is started again, and may wait for what it needs until ctx ends: its stop.
	Again func(ctx context.Context, name string)
	// PIDs, if set, receives the running instances' process ids after each change, one call at a time.
	PIDs func(map[string]int) error
}

// Supervisor owns processes. Create it with New and end it with Close.
type Supervisor struct {
	o     Options
	fork  forker
	fails chan error

	mu      sync.Mutex
	keepers map[string]*keeper
	pids    map[string]int
	wg      sync.WaitGroup
}

// New returns a supervisor without processes.
func New(o Options) *Supervisor {
	return &Supervisor{
		o:       o,
		fork:    newForker(),
		fails:   make(chan error, 1),
		keepers: map[string]*keeper{},
		pids:    map[string]int{},
	}
}

// Start starts p and keeps it running. An executable that cannot be started is an error at once.
func (s *Supervisor) Start(p Process) error {
	s.mu.Lock()
	if _, dup := s.keepers[p.Name]; dup {
		s.mu.Unlock()
		return fmt.Errorf("start %s: an instance of that name is supervised already", p.Name)
	}
	k := newKeeper(s, p)
	s.keepers[p.Name] = k
	s.mu.Unlock()

	c, err := k.start()
	if err != nil {
		s.mu.Lock()
		delete(s.keepers, p.Name)
		s.mu.Unlock()
		return err
	}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		k.keep(c)
	}()
	return nil
}

// Done is closed when the instance has exited 0, or has been stopped. It is nil for an unknown name.
func (s *Supervisor) Done(name string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keepers[name]; k != nil {
		return k.done
	}
	return nil
}

// Kill ends an instance that is stuck, to be started again by the rules, and reports whether it did. One that does not run,
// or runs as another process than pid, is left alone; pid 0 is any.
func (s *Supervisor) Kill(name string, pid int) bool {
	s.mu.Lock()
	k := s.keepers[name]
	s.mu.Unlock()
	return k != nil && k.kill(pid)
}

// Running returns the instances that run now.
func (s *Supervisor) Running() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.pids))
}

// PIDs returns the process ids of what runs now.
func (s *Supervisor) PIDs() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.pids))
}

// Failed delivers the first failure that no restart can mend, a *Failure where a process is to blame.
func (s *Supervisor) Failed() <-chan error { return s.fails }

// Progress says that the work as a whole advances: deaths so far no longer count as those without progress. If it only comes
// again to where it has been, they still count as those at the same place: a process may fail or be killed there each time.
func (s *Supervisor) Progress(further bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keepers {
		k.forgive(further)
	}
}

// Stop ends the named instances, all of them if none is named: SIGTERM to each, SIGKILL to those still there after
// the grace. It returns when they are gone, with the names of those that had to be killed in the error.
func (s *Supervisor) Stop(names ...string) error {
	s.mu.Lock()
	var ks []*keeper
	for name, k := range s.keepers {
		if len(names) == 0 || slices.Contains(names, name) {
			ks = append(ks, k)
		}
	}
	s.mu.Unlock()

	errs := make([]error, len(ks))
	var wg sync.WaitGroup
	for i, k := range ks {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = k.stop(s.o.Grace)
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close stops what still runs and ends the supervisor's goroutines.
func (s *Supervisor) Close() error {
	err := s.Stop()
	s.wg.Wait()
	s.fork.close()
	return err
}

func (s *Supervisor) fail(err error) {
	select {
	case s.fails <- err:
	default: // an earlier failure ends the run already
	}
}

// running records that the instance runs as pid, or no longer runs (pid 0).
func (s *Supervisor) running(name string, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pid == 0 {
		delete(s.pids, name)
	} else {
		s.pids[name] = pid
	}
	if s.o.PIDs == nil {
		return
	}
	if err := s.o.PIDs(maps.Clone(s.pids)); err != nil && !errors.Is(err, syscall.ENOSPC) { // the next change is told when there is room
		s.fail(fmt.Errorf("record process ids: %w", err))
	}
}
