package mem

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"penstock/schema"
)

// control is the memory beside a slab: a line of header, then one line per slot whose first word is the slot's
// generation. A line is a cache line, so that slots do not slow each other down.
type control []byte

const (
	lineBytes    = 64
	controlMagic = 0x31_62_61_6c_73_2d_73_70 // "ps-slab1"
)

func controlBytes(slots int) int {
	page := os.Getpagesize()
	return (lineBytes*(1+slots) + page - 1) / page * page
}

func (c control) format(incarnation uint64, g geometry) {
	for i, v := range header(incarnation, g) {
		binary.LittleEndian.PutUint64(c[8*i:], v)
	}
}

// check refuses the control memory of another slab.
func (c control) check(incarnation uint64, g geometry) error {
	for i, want := range header(incarnation, g) {
		if have := binary.LittleEndian.Uint64(c[8*i:]); have != want {
			return fmt.Errorf("%w: control word %d is %#x, want %#x", ErrForged, i, have, want)
		}
	}
	return nil
}

func header(incarnation uint64, g geometry) [4]uint64 {
	return [4]uint64{controlMagic, incarnation, uint64(g.slots), uint64(g.slotBytes)}
}

// word is a slot's generation word; the slot is within the slab.
func (c control) word(slot uint32) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&c[lineBytes*(1+int(slot))]))
}

// readAt calls f between two looks at the slot's generation word. f's result counts only if both times it was ref's.
func readAt(c control, ref schema.SlotRef, f func() error) error {
	word := c.word(ref.Slot)
	if have := word.Load(); have != ref.Generation {
		return fmt.Errorf("%w: slot %d is at generation %d, not %d", ErrStale, ref.Slot, have, ref.Generation)
	}
	err := f()
	if have := word.Load(); have != ref.Generation {
		return fmt.Errorf("%w: slot %d went to generation %d while it was read", ErrStale, ref.Slot, have)
	}
	return err
}
