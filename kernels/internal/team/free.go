package team

import "sync"

// Free keeps what goroutines made for reuse, so that a loop that has run once does not allocate again.
// It grows to the number of goroutines that ever worked at one time.
type Free[T any] struct {
	mu   sync.Mutex
	list []*T
}

// Get returns one of those put back, or nil when none is left.
func (f *Free[T]) Get() *T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) == 0 {
		return nil
	}
	t := f.list[len(f.list)-1]
	f.list = f.list[:len(f.list)-1]
	return t
}

// Put gives t back; its user must be done with it.
func (f *Free[T]) Put(t *T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, t)
}
