// Package mem is the memory that stages hand to each other: a slab of equal slots that one process owns and writes and
// others map and read. A message carries a handle; the bytes stay where they are.
//
// A slab has one of several kinds. "shm" is host memory: a sealed memfd without a name, passed over a socket in the
// run directory that only the same user may connect to. Nothing is left over when its owner is killed, and no reader
// can be hurt by the owner's death: the memory lives until the last one has unmapped it. "cudaipc" is the memory of a GPU,
// whose handle is announced; its owner is asked over the same kind of socket, so that a handle of a dead one is stale. A reader
// on another GPU copies out of it, and only that.
//
// Beside every slab, in host memory of its own, stands one generation word per slot. The owner stores a slot's new
// generation before it enqueues any write to the slot; a reader looks before and after, and what it read in between
// counts only if both times the word was the one in its handle. See [View.Read].
//
// Memory that an importer maps stays occupied after its owner's death. So importers let go as soon as the owner's socket
// ends, once their reads have returned, and its successor waits for that before it allocates. See mapped.
package mem

import (
	"errors"

	"penstock/kernels"
	"penstock/schema"
)

var (
	// ErrStale: the handle is about an owner, or a use of a slot, that is over. What was read is to be discarded.
	ErrStale = errors.New("stale handle")
	// ErrForged: the handle, or what stands behind it, cannot come from an owner of this version.
	ErrForged = errors.New("bad handle")
	// ErrClosed: the slab or view was closed by this process.
	ErrClosed = errors.New("closed")
)

// Spec is what an owner asks for.
type Spec struct {
	Kind        string // "shm", or "cudaipc" where the CUDA device is built in
	Device      int    // the GPU of a "cudaipc" slab
	Pool        string // letters, digits, '_' and '-'
	Incarnation uint64
	Slots       int
	SlotBytes   int          // rounded up to pages
	Element     kernels.Type // of what is in the slots; host memory has float32
	RunDir      string       // the socket is made here
}

// kind is one way to hold a slab.
type kind struct {
	fds    int // descriptors that an importer is passed, behind that of the control memory
	create func(Spec, geometry) (made, error)
	open   func(info schema.PoolInfo, g geometry, fds []int, gpu int) (memory, error)
}

// made is a slab's memory at its owner, and how others get at it.
type made struct {
	memory
	fds    []int
	device int32
	handle []byte
}

// memory is the bytes of a slab as this process maps them.
type memory interface {
	// at gives a tensor of the slab's elements its memory, from a byte on. All of it is within the slab.
	at(from int, t kernels.Tensor) kernels.Tensor
	// close unmaps it. Work that uses it must be done.
	close() error
}

var kinds = map[string]kind{"shm": {1, createShm, openShm}}
