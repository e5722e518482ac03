package draft

import "sync"

// flight is the set of batches that are being worked on between claim and addition. It is safe for concurrent use.
type flight struct {
	mu  sync.Mutex
	ids map[uint32]bool
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

func (f *flight) leave(id uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ids, id)
}
