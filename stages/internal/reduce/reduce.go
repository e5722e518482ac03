// Package reduce adds up, over the members of a rank group, what each of them has summed of a window. Every member gets
// the same bits, because every member adds the same parts in the same order, or takes what a collective gives to all.
package reduce

import (
	"context"

	"penstock/broker/policy"
	"penstock/kernels"
)

// Round names one reduction: a rank epoch that begins while the window is open makes it another one.
type Round struct{ Gen, Window, Epoch uint32 }

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

// Early is a group whose sums may begin before the parts are brought. The goroutine of the [Group] uses it.
type Early interface {
	// Begin lets the sum of a round begin in the sections of the total that [Early.Ready] names, in their order: all of it, and the
	// same at every member. It reports false where that is not possible now. It is over with Sum, Withdraw, Close or ctx.
	Begin(ctx context.Context, r Round, parts []Part, sections []kernels.Tensor) bool
	// Ready says that the device's work so far leaves, in the next section, what the own part will have there.
	Ready()
	// Void says that the own part will be another: the sum is made anew once the parts are brought. So it is after a Bring before
	// every section is ready.
	Void()
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
