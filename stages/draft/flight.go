package draft

import "sync"

// flight is the set of batches that are being worked on between claim and addition. It is safe for concurrent use.
type flight struct {
	mu   sync.Mutex
	ids  map[uint32]bool
	gone chan struct{}
}

// enter adds a batch and reports whether it was not there.
func (f *flight) enter(id uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ids[id] {
		return false
	}
	if f.ids == nil {
		f.ids = map[uint32]bool{}
	}
	f.ids[id] = true
	return true
}

// leave takes a batch out.
func (f *flight) leave(id uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ids, id)
	if f.gone != nil {
		close(f.gone)
		f.gone = nil
	}
}

// left returns a channel that closes when a batch is next taken out.
func (f *flight) left() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone == nil {
		f.gone = make(chan struct{})
	}
	return f.gone
}

func (f *flight) has(id uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ids[id]
}

func (f *flight) len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ids)
}
