package mem

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"penstock/schema"
)

// Importer opens the slabs of other processes, each once, and lets go of one whose owner ends. It is safe for concurrent
// use.
type Importer struct {
	GPU int // that reads "cudaipc" slabs; not changed once one is open

	runDir string
	watch  sync.WaitGroup

	mu    sync.Mutex
	views map[string]*View // by pool; the latest incarnation that was opened
	errs  []error          // of letting go
}

// NewImporter looks for sockets in runDir. It reads with the first GPU.
func NewImporter(runDir string) *Importer {
	return &Importer{runDir: runDir, views: map[string]*View{}}
}

// Open maps the slab that info announces, or returns the view that it made of it before. A view of an earlier
// incarnation of the pool is unmapped, once its reads have returned. ErrStale says that the incarnation is gone,
// ErrForged that the announcement is not true.
func (i *Importer) Open(ctx context.Context, info schema.PoolInfo) (*View, error) {
	k, ok := kinds[info.Memory]
	if !ok {
		return nil, fmt.Errorf("pool %q: memory of kind %q is not part of this build", info.Pool, info.Memory)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	old := i.views[info.Pool]
	if old != nil && old.Info().Incarnation == info.Incarnation {
		return old, nil
	}
	v, err := openView(ctx, k, info, i.runDir, i.GPU)
	if err != nil {
		return nil, fmt.Errorf("open pool %q: %w", info.Pool, err)
	}
	i.views[info.Pool] = v
	i.watch.Go(func() { i.letGo(v) })
	if old != nil {
		if err := old.close(); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// letGo unmaps a view as soon as its owner has ended.
func (i *Importer) letGo(v *View) {
	v.await()
	i.mu.Lock()
	if i.views[v.info.Pool] == v {
		delete(i.views, v.info.Pool)
	}
	i.mu.Unlock()
	if err := v.close(); err != nil {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.errs = append(i.errs, err)
	}
}

// Drop unmaps the pool's slab, once its reads have returned.
func (i *Importer) Drop(pool string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	v := i.views[pool]
	if v == nil {
		return nil
	}
	delete(i.views, pool)
	return v.close()
}

// Close unmaps everything.
func (i *Importer) Close() error {
	i.mu.Lock()
	views := i.views
	i.views = map[string]*View{}
	i.mu.Unlock()
	var errs []error
	for _, v := range views {
		errs = append(errs, v.close())
	}
	i.watch.Wait()
	return errors.Join(append(errs, i.errs...)...)
}
