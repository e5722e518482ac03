package worker

import (
	"sync"

	"penstock/stages/internal/account"
)

// Flying books the time of a stage whose work is complete some time after it was given to the device: as long as any is
// under way the stage computes, whatever it waits for meanwhile. It is safe for concurrent use.
type Flying struct {
	book *account.Book

	mu    sync.Mutex
	n     int    // stretches of work under way
	waits string // for what, once none is
}

// NewFlying books in a book.
func NewFlying(b *account.Book) *Flying { return &Flying{book: b, waits: account.NoInput} }

// Wait says what the stage waits for.
func (f *Flying) Wait(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waits = what
	if f.n == 0 {
		f.book.Enter(what)
	}
}

// Begin says that work is given to the device; what follows waits for input. Each Begin needs its End.
func (f *Flying) Begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n, f.waits = f.n+1, account.NoInput
	f.book.Enter(account.Compute)
}

// End says that the oldest of the work is complete.
func (f *Flying) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	if f.n == 0 {
		f.book.Enter(f.waits)
	} else {
		f.book.Enter(account.Compute) // another stretch
	}
}
