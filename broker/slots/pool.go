// Package slots is the owner's side of a slot pool: which of its equal slots are in use, by which batch, and whether
// a release that comes back is about that use. It moves no bytes and sends no messages.
//
// A use is named by pool, incarnation of the owner, slot, and the slot's generation, which grows with every use.
// Only a release that matches all four frees the slot, and only once. The generation is made known to readers before
// the slot is written, so that a reader of an earlier use finds out. Nothing is evicted: a slot is freed by its
// release, or because its window has committed or its generation of the run is over.
package slots

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"

	"penstock/schema"
)

// Use is one occupied slot.
type Use struct {
	Slot       uint32       `json:"slot"`
	Generation uint64       `json:"sgen"`
	Batch      schema.Batch `json:"batch"`
	Root       string       `json:"root"` // acknowledge subject of the batch's root message
}

// Config describes a pool.
type Config struct {
	Pool        string
	Incarnation uint64 // of the owner: see Incarnation
	Slots       int
	// Bump makes a slot's new generation known to readers; Take calls it before it returns, so before any write.
	// It may be nil.
	Bump func(slot uint32, generation uint64)
	// Journal keeps the uses where they survive the owner. It may be nil.
	Journal *Journal
}

// Admit says whether a batch may take one of free slots.
type Admit func(window uint32, free int) bool

// Pool is the state of one pool. It is safe for concurrent use. Its owner orders the writes to a slot: freeing does
// not stop one that is under way.
type Pool struct {
	cfg Config

	mu   sync.Mutex
	gen  []uint64 // per slot, of its latest use
	used []*Use   // per slot, nil while it is free
	free []uint32 // the slot that has been free for longest first
}

// Incarnation returns a random number that is not 0.
func Incarnation() uint64 {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		if n := binary.LittleEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}

// New returns a pool whose slots are all free.
func New(cfg Config) (*Pool, error) {
	if cfg.Pool == "" || cfg.Incarnation == 0 || cfg.Slots < 1 {
		return nil, fmt.Errorf("slot pool %q: needs a name, an incarnation and at least one slot, has %d", cfg.Pool, cfg.Slots)
	}
	if cfg.Journal != nil && cfg.Journal.slots != cfg.Slots {
		return nil, fmt.Errorf("slot pool %q: %d slots, its journal has %d", cfg.Pool, cfg.Slots, cfg.Journal.slots)
	}
	p := &Pool{cfg: cfg, gen: make([]uint64, cfg.Slots), used: make([]*Use, cfg.Slots)}
	for s := range uint32(cfg.Slots) {
		p.free = append(p.free, s)
	}
	return p, nil
}

// Take gives a free slot to a batch if admit lets it have one. root is the acknowledge subject of its root message.
func (p *Pool) Take(b schema.Batch, root string, admit Admit) (schema.SlotRef, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 || !admit(b.Window, len(p.free)) {
		return schema.SlotRef{}, false
	}
	s := p.free[0]
	p.free = p.free[1:]
	p.gen[s]++
	u := &Use{Slot: s, Generation: p.gen[s], Batch: b, Root: root}
	p.used[s] = u
	if p.cfg.Bump != nil {
		p.cfg.Bump(s, u.Generation)
	}
	p.cfg.Journal.put(*u)
	return p.ref(u), true
}

// Release frees the slot of ref if ref is its present use, and reports whether it did.
func (p *Pool) Release(ref schema.SlotRef) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ref.Slot >= uint32(len(p.used)) {
		return false
	}
	u := p.used[ref.Slot]
	if u == nil || p.ref(u) != ref {
		return false
	}
	p.drop(u)
	return true
}

// FreeBefore frees the slots of windows before window, the first that has not committed, and returns their uses.
func (p *Pool) FreeBefore(window uint32) []Use {
	return p.freeIf(func(u *Use) bool { return u.Batch.Window < window })
}

// FreeAll frees every slot, as a new generation of the run demands, and returns their uses.
func (p *Pool) FreeAll() []Use { return p.freeIf(func(*Use) bool { return true }) }

func (p *Pool) freeIf(free func(*Use) bool) []Use {
	p.mu.Lock()
	defer p.mu.Unlock()
	var freed []Use
	for _, u := range p.used {
		if u != nil && free(u) {
			freed = append(freed, *u)
			p.drop(u)
		}
	}
	return freed
}

// Occupied returns the uses, by slot.
func (p *Pool) Occupied() []Use {
	p.mu.Lock()
	defer p.mu.Unlock()
	var uses []Use
	for _, u := range p.used {
		if u != nil {
			uses = append(uses, *u)
		}
	}
	return uses
}

// Free returns how many slots are free.
func (p *Pool) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.free)
}

func (p *Pool) drop(u *Use) {
	p.used[u.Slot] = nil
	p.free = append(p.free, u.Slot)
	p.cfg.Journal.clear(u.Slot)
}

func (p *Pool) ref(u *Use) schema.SlotRef {
	return schema.SlotRef{Pool: p.cfg.Pool, Incarnation: p.cfg.Incarnation, Slot: u.Slot, Generation: u.Generation}
}
