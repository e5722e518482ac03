package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"penstock/kernels"
	"penstock/kernels/mem"
	"penstock/schema"
)

// ErrGone says that a slot's use is over: its owner died, or has given the slot to another batch.
var ErrGone = errors.New("slot use is over")

// Views reads the slots of other processes' pools.
type Views struct {
	w     *Worker
	open  *mem.Importer
	mu    sync.Mutex
	infos map[string]schema.PoolInfo
}

// OpenViews returns views of the run's pools; each is opened on first use.
func (w *Worker) OpenViews() *Views {
	return &Views{w: w, open: mem.NewImporter(w.Run.Sockets()), infos: map[string]schema.PoolInfo{}}
}

// Close unmaps everything.
func (v *Views) Close() error { return v.open.Close() }

// Read calls f with the rows×cols float32 of the slot that ref names. ErrGone says that the use of ref is over, before f
// or after it: then f's result is to be discarded. mem.ErrForged says that ref cannot be true.
func (v *Views) Read(ctx context.Context, ref schema.SlotRef, rows, cols int, f func(kernels.Tensor) error) error {
	info, err := v.info(ctx, ref)
	if err != nil {
		return err
	}
	view, err := v.open.Open(ctx, info)
	if err == nil {
		err = view.Read(ref, rows, cols, f)
	}
	if errors.Is(err, mem.ErrStale) {
		v.forget(ref.Pool)
		return fmt.Errorf("%w: %v", ErrGone, err)
	}
	return err
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
	hint, found, err := v.w.Conn.Board().Get(ctx, poolKey(ref.Pool))
	if err != nil {
		return info, err
	}
	info, ok = hint.Record.(schema.PoolInfo)
	if !found || !ok || info.Pool != ref.Pool || info.Incarnation != ref.Incarnation {
		return info, ErrGone
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
