package worker

import (
	"context"
	"fmt"
	"sync"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/runtime"
)

// Follower keeps the lineage as the ledger tells it: all of it, or, where only the front matters, no batches but those that
// were asked for. It is safe for concurrent use.
type Follower struct {
	front bool // only generations and control records are followed

	mu      sync.Mutex
	lineage policy.Lineage
	opener  string // run that opened the generation in force
	seq     uint64 // up to which the stream has been read
	changed chan struct{}
}

// NewFollower returns a follower that has read nothing.
func NewFollower() *Follower { return &Follower{changed: make(chan struct{})} }

// followerFor returns the follower that a stage needs. One rank in free order takes batches as they come: then what has
// been claimed and added concerns nobody but that rank.
func followerFor(env *runtime.Env) *Follower {
	f := NewFollower()
	f.front = env.Stage != "draft" && env.Config.Draft.Ranks == 1 && !env.Config.Deterministic
	return f
}

func (f *Follower) run(ctx context.Context, conn *broker.Conn) error {
	read := func(e broker.Entry) error {
		f.read(e)
		return nil
	}
	if f.front {
		return conn.Ledger().FollowFront(ctx, read)
	}
	return conn.Ledger().Follow(ctx, broker.LedgerAll, 0, read)
}

func (f *Follower) read(e broker.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq = e.Seq
	f.apply(e)
}

// Apply folds one entry in. A process that wrote an entry itself may apply it before the stream brings it.
func (f *Follower) Apply(e broker.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.apply(e)
}

func (f *Follower) apply(e broker.Entry) {
	if g, ok := e.Record.(schema.Gen); ok && g.Gen > f.lineage.Gen {
		f.opener = g.Run
	}
	f.lineage.Apply(e.Record, e.Seq)
	close(f.changed)
	f.changed = make(chan struct{})
}

// generation waits for a generation later than last that a run opened. An external broker also holds those of runs before.
func (f *Follower) generation(ctx context.Context, run string, last uint32) (gen uint32, err error) {
	err = f.Wait(ctx, func(l *policy.Lineage) bool { gen = l.Gen; return gen > last && f.opener == run })
	return gen, err
}

// Reach waits until the stream has been read up to a sequence.
func (f *Follower) Reach(ctx context.Context, seq uint64) error {
	return f.Wait(ctx, func(*policy.Lineage) bool { return f.seq >= seq })
}

// Lineage returns the lineage as it stands, good for everything but the state of batches.
func (f *Follower) Lineage() policy.Lineage {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lineage
}

// View calls look with the lineage, which it must not keep.
func (f *Follower) View(look func(l *policy.Lineage)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	look(&f.lineage)
}

// Changed returns a channel that closes with the next entry.
func (f *Follower) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// Look returns once the lineage has the last that the ledger says of a batch now. Where batches are followed it waits for the stream,
// which brings what is before too.
func (f *Follower) Look(ctx context.Context, conn *broker.Conn, b schema.Batch) error {
	e, err := conn.Ledger().Last(ctx, broker.LedgerBatch(b.Gen, b.Window, b.Index))
	switch {
	case err != nil || e.Record == nil:
		return err
	case f.front:
		f.Apply(e)
		return nil
	}
	return f.Reach(ctx, e.Seq)
}

// Study reads all that the ledger says now on some subjects, followed or not, and however far it has been read.
func (f *Follower) Study(ctx context.Context, conn *broker.Conn, subjects ...string) error {
	for _, subject := range subjects {
		entries, _, err := conn.Ledger().History(ctx, subject)
		if err != nil {
			return err
		}
		for _, e := range entries {
			f.Apply(e)
		}
	}
	return nil
}

// Front returns the generation in force and the first window that has not committed.
func (f *Follower) Front() (gen, next uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lineage.Gen, f.lineage.Next
}

// Wait returns once cond holds. It is checked after each entry, under the follower's lock.
func (f *Follower) Wait(ctx context.Context, cond func(l *policy.Lineage) bool) error {
	for {
		f.mu.Lock()
		ok, changed := cond(&f.lineage), f.changed
		f.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Superseded is the cause with which the context of a generation ends when a later one opens.
type Superseded struct{ By uint32 }

func (s Superseded) Error() string { return fmt.Sprintf("generation %d has opened", s.By) }
