// Package relay copies memory from one device to another that does not reach it, through two chunks of host memory in turn: one
// is filled while the other is emptied.
package relay

// Side is one end of a pipe.
type Side int

const (
	Source Side = iota // fills chunks
	Sink               // empties them
)

// Chunks is how many there are.
const Chunks = 2

// Pipe enqueues on the queues of two devices, each of which works in order and knows of the other only what it awaits. No
// call waits for the work.
type Pipe interface {
	// Move enqueues a copy of n bytes on a side: from the source's memory at offset to the front of the chunk, or from there to
	// the sink's memory at offset.
	Move(at Side, chunk int, offset, n int64) error
	// Mark marks that the work which is enqueued on the side so far is done with the chunk.
	Mark(at Side, chunk int) error
	// Await has the side's later work wait for the other side's latest mark of the chunk; for none if there is none yet.
	Await(at Side, chunk int) error
}

// Copy enqueues a copy of so many bytes in chunks of a size above 0. A later Copy through the same pipe may follow at once.
func Copy(p Pipe, bytes, size int64) error {
	for k, at := 0, int64(0); at < bytes; k, at = (k+1)%Chunks, at+size {
		n := min(size, bytes-at)
		for _, side := range []Side{Source, Sink} {
			if err := p.Await(side, k); err != nil {
				return err
			}
			if err := p.Move(side, k, at, n); err != nil {
				return err
			}
			if err := p.Mark(side, k); err != nil {
				return err
			}
		}
	}
	return nil
}
