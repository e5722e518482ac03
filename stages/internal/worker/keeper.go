package worker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"penstock/broker"
	"penstock/broker/slots"
	"penstock/schema"
)

// Keeper marks what this process holds as in progress, so that it is not delivered again while it is worked on. With a
// journal, it also keeps a list of the roots among it that outlives the process, for whoever hands its work back. It is
// safe for concurrent use.
type Keeper struct {
	mark  func(ackSubject string) error
	every time.Duration
	hung  func() bool // whether the process is stuck: then nothing is marked

	mu      sync.Mutex
	held    map[string]*hold
	journal *slots.Journal
	list    *slots.Pool // one slot a held message, without memory; nil without a journal
}

var rootAcks = "$JS.ACK." + broker.Fwd.Stream + "."

type hold struct {
	n   int
	ref schema.SlotRef // in the list
}

func newKeeper(mark func(string) error, every time.Duration) *Keeper {
	return &Keeper{mark: mark, every: every, held: map[string]*hold{}}
}

// Hold begins to mark the message behind an acknowledge subject. Each Hold needs its Drop.
func (k *Keeper) Hold(ackSubject string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[ackSubject]
	if h == nil {
		h = &hold{}
		k.held[ackSubject] = h
		if k.list != nil && strings.HasPrefix(ackSubject, rootAcks) { // one too many is left to AckWait
			h.ref, _ = k.list.Take(schema.Batch{}, ackSubject, func(_ uint32, free int) bool { return free > 0 })
		}
	}
	h.n++
}

// Drop ends what one Hold began.
func (k *Keeper) Drop(ackSubject string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[ackSubject]
	if h == nil {
		return
	}
	if h.n--; h.n <= 0 {
		k.forget(ackSubject, h)
	}
}

func (k *Keeper) forget(ackSubject string, h *hold) {
	delete(k.held, ackSubject)
	if k.list != nil {
		k.list.Release(h.ref) // nothing if it is not listed
	}
}

// KeepJournal keeps the roots that are held from now on, at most n, in the instance's journal, under an incarnation, until
// the process ends. A journal that is there is replaced; nothing is held that it names.
func (w *Worker) KeepJournal(n int, incarnation uint64) error {
	journal, err := slots.CreateJournal(w.Run.Journal(w.Instance), w.Instance, incarnation, n)
	if err != nil {
		return err
	}
	list, err := slots.New(slots.Config{Pool: w.Instance, Incarnation: incarnation, Slots: n, Journal: journal})
	if err != nil {
		return errors.Join(err, journal.Close())
	}
	w.Keeper.close()
	w.Keeper.mu.Lock()
	defer w.Keeper.mu.Unlock()
	w.Keeper.journal, w.Keeper.list = journal, list
	return nil
}

// Abandon gives up everything that is held: give hands each back. What it fails to hand back stays in the journal, for whoever does
// that when this process has ended; what is gone is nobody's.
func (k *Keeper) Abandon(give func(ackSubject string) error) error {
	var errs []error
	for _, s := range k.all() {
		if err := give(s); err != nil && !errors.Is(err, broker.ErrGone) {
			errs = append(errs, err)
			continue
		}
		k.mu.Lock()
		if h := k.held[s]; h != nil {
			k.forget(s, h)
		}
		k.mu.Unlock()
	}
	return errors.Join(errs...)
}

// close leaves the journal as it stands.
func (k *Keeper) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.journal != nil {
		_ = k.journal.Close() // unmapping what was mapped
	}
	k.journal, k.list = nil, nil
}

func (k *Keeper) run(ctx context.Context) error {
	tick := time.NewTicker(k.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if k.hung != nil && k.hung() {
				continue
			}
			for _, s := range k.all() {
				_ = k.mark(s) // a mark that is lost is repeated at the next tick, long before AckWait ends
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (k *Keeper) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]string, 0, len(k.held))
	for s := range k.held {
		out = append(out, s)
	}
	return out
}
