// Package mem is the memory that stages hand to each other: a slab of equal slots that one process owns and writes and
// others map and read. A message carries a handle; the bytes stay where they are.
//
// A slab has one of several kinds. "shm" is host memory: a sealed memfd without a name, passed over a socket in the
// run directory that only the same user may connect to. Nothing is left over when its owner is killed, and no reader
// can be hurt by the owner's death: the memory lives until the last one has unmapped it. "cudaipc" is the memory of a GPU,
// whose handle is announced; its owner is asked over the same kind of socket, so that a handle of a dead one is stale.
//
// Beside every slab, in host memory of its own, stands one generation word per slot. The owner stores a slot's new
// generation before it enqueues any write to the slot; a reader looks before and after, and what it read in between
// counts only if both times the word was the one in its handle. See [View.Read].
package mem

import (
	"context"
	"errors"
	"fmt"

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
	SlotBytes   int    // rounded up to pages
	RunDir      string // the socket is made here
}

// Slab is the owner's side.
type Slab interface {
	// Info is what importers need, to be announced.
	Info() schema.PoolInfo
	// Tensor is the first rows·cols float32 of a slot. The owner writes it.
	Tensor(slot uint32, rows, cols int) (kernels.Tensor, error)
	// SetGeneration stores the slot's generation word. It happens before every write that follows it.
	SetGeneration(slot uint32, generation uint64)
	// Close takes the memory away from this process. Importers keep what they have mapped.
	Close() error
}

// View is an importer's side. It is safe for concurrent use.
type View interface {
	Info() schema.PoolInfo
	// Generation reads a slot's generation word.
	Generation(slot uint32) (uint64, error)
	// Read calls f with the first rows·cols float32 of the slot that ref names, to be read only. It returns ErrStale,
	// without calling f or after it, if the use that ref names is over: then f's result is to be discarded. f returns
	// when its copies and kernels have finished, and keeps no reference.
	Read(ref schema.SlotRef, rows, cols int, f func(kernels.Tensor) error) error

	close() error
}

// kind is one way to hold a slab.
type kind struct {
	create func(Spec) (Slab, error)
	open   func(context.Context, schema.PoolInfo, string) (View, error)
}

var kinds = map[string]kind{
	"shm": {create: createShm, open: openShm},
}

// Create allocates a slab, all of it at once, and serves it to importers until Close.
func Create(s Spec) (Slab, error) {
	k, ok := kinds[s.Kind]
	if !ok {
		return nil, fmt.Errorf("pool %q: memory of kind %q is not part of this build", s.Pool, s.Kind)
	}
	slab, err := k.create(s)
	if err != nil {
		return nil, fmt.Errorf("pool %q: %w", s.Pool, err)
	}
	return slab, nil
}
