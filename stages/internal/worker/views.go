package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"penstock/kernels"
	"penstock/kernels/mem"
	"penstock/schema"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/runtime"
)

// ErrGone says that a slot's use is over: its owner died, or has given the slot to another batch.
var ErrGone = errors.New("slot use is over")

// Views reads the slots of other processes' pools. Read is for the device's goroutine alone.
type Views struct {
	w       *Worker
	took    func(kind string, n uint64, d time.Duration)
	dev     kernels.Device
	open    *mem.Importer
	landing kernels.Tensor // of what lies on another GPU; nil before there is any

	mu    sync.Mutex
	infos map[string]schema.PoolInfo
}

// memoryOf is the kind of memory that a device hands on.
func memoryOf(device string) string {
	if backend.IsGPU(device) {
		return "cudaipc"
	}
	return "shm"
}

// readable refuses a pool that a device cannot read.
func readable(info schema.PoolInfo, device string, half kernels.Type) error {
	if kind := memoryOf(device); info.Memory != kind || info.Element != half.String() {
		return fmt.Errorf("pool %s holds %s in %s memory, and device %s reads %v in %s: give every stage the same kind of device",
			info.Pool, info.Element, info.Memory, device, half, kind)
	}
	return nil
}

// OpenViews returns views of the run's pools for a device; each is opened on first use.
func (w *Worker) OpenViews(dev kernels.Device) *Views {
	open := mem.NewImporter(w.Run.Sockets())
	open.GPU, _ = backend.GPU(w.Device)
	return &Views{w: w, took: w.Status.Took, dev: dev, open: open, infos: map[string]schema.PoolInfo{}}
}

// Close unmaps everything.
func (v *Views) Close() error { return v.open.Close() }

// Read calls f with the rows×cols elements of the slot that ref names. ErrGone says that the use of ref is over, before f
// or after it: then f's result is to be discarded. mem.ErrForged says that ref cannot be true. What lies on another GPU is
// copied to this one's before, in memory that the next Read takes again.
func (v *Views) Read(ctx context.Context, ref schema.SlotRef, rows, cols int, f func(kernels.Tensor) error) error {
	info, err := v.info(ctx, ref)
	if err != nil {
		return err
	}
	if err := readable(info, v.w.Device, v.dev.Half()); err != nil {
		return runtime.Permanent(err)
	}
	view, err := v.open.Open(ctx, info)
	if err == nil {
		err = view.Read(ref, rows, cols, v.here(info, f))
	}
	if errors.Is(err, mem.ErrStale) || errors.Is(err, mem.ErrClosed) { // closed for the sake of another incarnation
		v.forget(ref.Pool)
		return fmt.Errorf("%w: %v", ErrGone, err)
	}
	return err
}

// here calls f with a tensor of a pool if this device's kernels can read it, else with a copy.
func (v *Views) here(info schema.PoolInfo, f func(kernels.Tensor) error) func(kernels.Tensor) error {
	if v.inPlace(info) {
		return f
	}
	return func(there kernels.Tensor) error {
		if n := int(info.SlotBytes) / there.Type.Bytes(); v.landing.Len() < n {
			v.landing = v.dev.AllocHalf(n, 1)
		}
		x := v.landing.RowRange(0, there.Len()).Reshape(there.Rows, there.Cols)
		if err := v.pull(x, there, int(info.Device)); err != nil {
			return err
		}
		return f(x)
	}
}

// pull copies from another GPU, and books how long that takes.
func (v *Views) pull(x, there kernels.Tensor, owner int) error {
	p, ok := v.dev.(kernels.Puller)
	if !ok {
		return runtime.Permanent(fmt.Errorf("device %s does not copy from another", v.dev.Name()))
	}
	began := time.Now()
	p.Pull(x, there, owner)
	err := v.dev.Sync()
	v.took(Pull, uint64(x.Bytes()), time.Since(began))
	return err
}

// Near reports whether a slot lies where this device reads it in place, as far as its pool is known.
func (v *Views) Near(ref schema.SlotRef) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	info, ok := v.infos[ref.Pool]
	return !ok || v.inPlace(info)
}

// inPlace reports whether this device's kernels can read a pool where it lies.
func (v *Views) inPlace(info schema.PoolInfo) bool {
	return info.Device < 0 || int(info.Device) == v.open.GPU
}

// Announce puts a slab on the board for others to open.
func (w *Worker) Announce(ctx context.Context, info schema.PoolInfo) error {
	return w.Conn.Board().Put(ctx, poolKey(info.Pool), info)
}

// Announced returns how to open the slab of an incarnation of a pool; ErrGone if the board has it not, or another one.
func (w *Worker) Announced(ctx context.Context, pool string, incarnation uint64) (schema.PoolInfo, error) {
	hint, found, err := w.Conn.Board().Get(ctx, poolKey(pool))
	if err != nil {
		return schema.PoolInfo{}, err
	}
	info, ok := hint.Record.(schema.PoolInfo)
	if !found || !ok || info.Pool != pool || info.Incarnation != incarnation {
		return info, ErrGone
	}
	return info, nil
}

// info looks the pool up, on the board if it is not the incarnation that is known. An owner announces its pool before
// it publishes a hop, so another incarnation on the board means that the one of ref is gone.
func (v *Views) info(ctx context.Context, ref schema.SlotRef) (schema.PoolInfo, error) {
	v.mu.Lock()
	info, ok := v.infos[ref.Pool]
	v.mu.Unlock()
	if ok && info.Incarnation == ref.Incarnation {
		return info, nil
	}
	info, err := v.w.Announced(ctx, ref.Pool, ref.Incarnation)
	if err != nil {
		return info, err
	}
	v.mu.Lock()
	v.infos[ref.Pool] = info
	v.mu.Unlock()
	return info, nil
}

func (v *Views) forget(pool string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.infos, pool)
}
