package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/broker/slots"
	"penstock/kernels"
	"penstock/kernels/mem"
	"penstock/schema"
	"penstock/stages/internal/backend"
)

// Pool is this process's slots: their memory, who uses them, and the marks on the roots of the batches in them.
type Pool struct {
	w    *Worker
	slab *mem.Slab
	own  *slots.Pool
	log  *slots.Journal
	stop context.CancelFunc
	done *errgroup.Group

	mu    sync.Mutex
	freed chan struct{}
	held  map[mark]string // acknowledge subjects marked
}

// mark names a use of a slot: the slot may be in use again before the mark of the former use ends.
type mark struct {
	slot       uint32
	generation uint64
}

// Use is one use of one slot.
type Use struct {
	Ref  schema.SlotRef
	slab *mem.Slab
}

// Tensor is the front of the slot, to be written.
func (u Use) Tensor(rows, cols int) (kernels.Tensor, error) {
	return u.slab.Tensor(u.Ref.Slot, rows, cols)
}

// OpenPool allocates, exports and announces the pool that is named like this instance, with n slots of so many elements of
// the device's half type, in the device's memory, and takes releases until Close.
func (w *Worker) OpenPool(ctx context.Context, dev kernels.Device, n, elements int) (*Pool, error) {
	if err := policy.Sufficient(w.Instance, n); err != nil {
		return nil, err
	}
	gpu, _ := backend.GPU(w.Device)
	slab, err := mem.Create(mem.Spec{Kind: memoryOf(w.Device), Device: gpu, Pool: w.Instance, Incarnation: w.Incarnation, Slots: n, SlotBytes: dev.Half().Bytes() * elements,
		Element: dev.Half(), RunDir: w.Run.Sockets()})
	if err != nil {
		return nil, err
	}
	p := &Pool{w: w, slab: slab, freed: make(chan struct{}), held: map[mark]string{}}
	if err := p.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open pool %s: %w", w.Instance, err), p.Close())
	}
	return p, nil
}

func (p *Pool) open(ctx context.Context) error {
	w, info := p.w, p.slab.Info()
	var err error
	if p.log, err = slots.CreateJournal(w.Run.Journal(w.Instance), w.Instance, w.Incarnation, int(info.Slots)); err != nil {
		return err
	}
	p.own, err = slots.New(slots.Config{Pool: w.Instance, Incarnation: w.Incarnation, Slots: int(info.Slots), Journal: p.log, Bump: p.slab.SetGeneration})
	if err != nil {
		return err
	}
	if err := w.Announce(ctx, info); err != nil {
		return err
	}
	releases, err := w.Conn.Releases(ctx, w.Instance, w.AckWait)
	if err != nil {
		return err
	}
	w.Status.setUsed(func() (int, int) { return int(info.Slots) - p.own.Free(), int(info.Slots) })
	run, cancel := context.WithCancel(ctx)
	p.stop = cancel
	p.done, run = errgroup.WithContext(run)
	p.done.Go(func() error { return p.takeReleases(run, releases) })
	p.done.Go(func() error { return p.freeCommitted(run) })
	return nil
}

// takeReleases frees what comes back. A release that does not match a present use is acknowledged and means nothing.
func (p *Pool) takeReleases(ctx context.Context, src *broker.Source[schema.Release]) error {
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), quietBoard)
		defer cancel()
		_ = src.Close(closing)
	}()
	for {
		d, err := src.Next(ctx)
		if err != nil {
			return p.fatal(ctx, err)
		}
		p.Release(d.Record.SlotRef)
		if err := d.AckSoon(); err != nil {
			return p.fatal(ctx, err)
		}
	}
}

// freeCommitted frees the slots of windows that commit: whatever became of their hops, nobody needs them.
func (p *Pool) freeCommitted(ctx context.Context) error {
	for {
		changed := p.w.Ledger.Changed()
		_, next := p.w.Ledger.Front()
		p.drop(p.own.FreeBefore(next))
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// fatal ends the process's work with an error that is not the end of ctx.
func (p *Pool) fatal(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		p.w.fail(fmt.Errorf("releases of pool %s: %w", p.w.Instance, err))
	}
	return nil
}

// Take gives a slot to a batch if admit lets it have one, and begins to mark its root.
func (p *Pool) Take(b schema.Batch, root string, admit func(free int) bool) (Use, bool) {
	ref, ok := p.own.Take(b, root, func(_ uint32, free int) bool { return admit(free) })
	if !ok {
		return Use{}, false
	}
	p.mu.Lock()
	p.held[mark{ref.Slot, ref.Generation}] = root
	p.mu.Unlock()
	p.w.Keeper.Hold(root)
	return Use{Ref: ref, slab: p.slab}, true
}

// Release frees a slot if ref is its present use.
func (p *Pool) Release(ref schema.SlotRef) {
	if p.own.Release(ref) {
		p.unmark(mark{ref.Slot, ref.Generation})
		p.wake()
	}
}

// FreeAll frees every slot, as a new generation demands.
func (p *Pool) FreeAll() { p.drop(p.own.FreeAll()) }

func (p *Pool) drop(freed []slots.Use) {
	for _, u := range freed {
		p.unmark(mark{u.Slot, u.Generation})
	}
	if len(freed) > 0 {
		p.wake()
	}
}

func (p *Pool) unmark(m mark) {
	p.mu.Lock()
	root, ok := p.held[m]
	delete(p.held, m)
	p.mu.Unlock()
	if ok {
		p.w.Keeper.Drop(root)
	}
}

func (p *Pool) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.freed)
	p.freed = make(chan struct{})
}

// Free returns how many slots are free.
func (p *Pool) Free() int { return p.own.Free() }

// uses reports whether ref is a slot's present use.
func (p *Pool) uses(ref schema.SlotRef) bool {
	return slices.ContainsFunc(p.own.Occupied(), func(u slots.Use) bool { return u.Slot == ref.Slot && u.Generation == ref.Generation })
}

// Freed returns a channel that closes when a slot is next freed.
func (p *Pool) Freed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.freed
}

// WaitFree waits until a slot is free.
func (p *Pool) WaitFree(ctx context.Context) error {
	for {
		freed := p.Freed()
		if p.own.Free() > 0 {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Close ends the export and gives the memory up.
func (p *Pool) Close() error {
	var err error
	if p.stop != nil {
		p.stop()
		err = p.done.Wait()
	}
	err = errors.Join(err, p.slab.Close())
	if p.log != nil {
		err = errors.Join(err, p.log.Close())
	}
	return err
}

func poolKey(pool string) string { return "pool." + pool }
