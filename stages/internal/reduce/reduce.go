// Package reduce adds up, over the members of a rank group, what each of them has summed of a window. Every member gets
// the same bits, because every member adds the same parts in the same order, or takes what a collective gives to all.
package reduce

import (
	"context"
	"hash/fnv"

	"penstock/broker/policy"
	"penstock/kernels"
)

// Round names one reduction: a rank epoch that begins while the window is open makes it another one.
type Round struct{ Gen, Window, Epoch uint32 }

// stage is how far a member is with a part of a round.
type stage byte

const (
	laid    stage = iota // out: the elements and the note are in the slab
	brought              // in the device's memory; the note in the slab is an offer
	invited              // brought, and the offer has the id of a new communicator
	summed               // the communicator's sum is complete at this member
)

// word is what stands beside a part at a stage of the round; it is not 0.
func (r Round) word(s stage) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte{byte(s)})
	for _, v := range []uint32{r.Gen, r.Window, r.Epoch} {
		_, _ = h.Write([]byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)})
	}
	return h.Sum64() | 1
}

// Part is one summand: the member that holds it, and which of its parts it is.
type Part struct {
	Member policy.Member
	Index  int
}

// Group is one member's end of the reductions. Between processes of one machine it is memory that all of them map, and
// beside it a library by which their devices add up themselves. One goroutine uses it.
type Group interface {
	// Part is the memory of an own part on the device, all zero at first. The member writes it until it brings it.
	Part(i int) kernels.Tensor
	// Bring says that an own part is complete for a round, with a note that goes along.
	Bring(r Round, i int, note []byte) error
	// Withdraw takes every own part back: they may be written again, and whoever still reads one finds out.
	Withdraw()
	// Sum waits until the parts are brought for the round and overwrites total with their sum, added up in their order.
	// It returns their notes. When it fails, as it does with ctx, total is to be discarded.
	Sum(ctx context.Context, r Round, parts []Part, total kernels.Tensor) (notes [][]byte, err error)
	// Close gives the memory up.
	Close() error
}

// alone is the group of a rank that has no others.
type alone struct {
	dev   kernels.Device
	parts []kernels.Tensor
	notes [][]byte
}

// Alone returns the group of one rank, with so many parts of so many elements.
func Alone(dev kernels.Device, parts, elements int) Group {
	return newAlone(dev, parts, func(int) kernels.Tensor { return dev.Alloc(1, elements) })
}

func newAlone(dev kernels.Device, parts int, alloc func(i int) kernels.Tensor) *alone {
	a := &alone{dev: dev, notes: make([][]byte, parts)}
	for i := range parts {
		a.parts = append(a.parts, alloc(i))
	}
	return a
}

func (a *alone) Part(i int) kernels.Tensor { return a.parts[i] }

func (a *alone) Bring(_ Round, i int, note []byte) error {
	a.notes[i] = note
	return a.dev.Sync()
}

func (a *alone) Withdraw() {}

func (a *alone) Sum(_ context.Context, _ Round, parts []Part, total kernels.Tensor) ([][]byte, error) {
	notes := make([][]byte, len(parts))
	a.dev.Zero(total)
	for i, p := range parts {
		notes[i] = a.add(total, p.Index)
	}
	return notes, a.dev.Sync()
}

// add adds an own part and returns its note.
func (a *alone) add(total kernels.Tensor, i int) []byte {
	a.dev.Add(total, a.parts[i])
	return a.notes[i]
}

func (a *alone) Close() error { return nil }
