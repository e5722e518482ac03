package mem

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"penstock/kernels"
	"penstock/schema"
)

const (
	maxSlots = 1 << 16
	maxBytes = 1 << 44 // of a slab
)

// geometry is the layout of a slab and of its control memory.
type geometry struct {
	slots     int
	slotBytes int          // whole pages
	element   kernels.Type // of what is in the slots
}

func newGeometry(slots, slotBytes uint64, element kernels.Type) (geometry, error) {
	page := uint64(os.Getpagesize())
	if slots < 1 || slots > maxSlots || slotBytes < 1 || slotBytes > maxBytes {
		return geometry{}, fmt.Errorf("%d slots of %d bytes", slots, slotBytes)
	}
	slotBytes = (slotBytes + page - 1) / page * page
	if slots*slotBytes > maxBytes {
		return geometry{}, fmt.Errorf("%d slots of %d bytes", slots, slotBytes)
	}
	return geometry{int(slots), int(slotBytes), element}, nil
}

const tokenChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// check returns the layout of the slab asked for.
func (s Spec) check() (geometry, error) {
	if s.Incarnation == 0 || s.Pool == "" || len(s.Pool) > 64 || strings.Trim(s.Pool, tokenChars) != "" {
		return geometry{}, errors.New("needs an incarnation and a name of 1 to 64 letters, digits, '_' or '-'")
	}
	return newGeometry(uint64(max(0, s.Slots)), uint64(max(0, s.SlotBytes)), s.Element)
}

func (g geometry) bytes() int { return g.slots * g.slotBytes }

// announced is the layout of the slab that info announces.
func announced(info schema.PoolInfo) (geometry, error) {
	for _, t := range []kernels.Type{kernels.Float32, kernels.BFloat16} {
		if t.String() != info.Element {
			continue
		}
		g, err := newGeometry(uint64(info.Slots), info.SlotBytes, t)
		if err == nil && uint64(g.slotBytes) == info.SlotBytes {
			return g, nil
		}
	}
	return geometry{}, fmt.Errorf("%w: %d slots of %d bytes, of %q", ErrForged, info.Slots, info.SlotBytes, info.Element)
}

// tensor returns the byte of the slab from which rows·cols elements of a slot lie, and their shape.
func (g geometry) tensor(slot uint32, rows, cols int) (from int, t kernels.Tensor, err error) {
	if uint64(slot) >= uint64(g.slots) {
		return 0, t, fmt.Errorf("%w: slot %d of %d", ErrForged, slot, g.slots)
	}
	if rows < 0 || cols < 0 || cols > 0 && rows > g.slotBytes/g.element.Bytes()/cols {
		return 0, t, fmt.Errorf("%w: %d×%d %v in a slot of %d bytes", ErrForged, rows, cols, g.element, g.slotBytes)
	}
	return int(slot) * g.slotBytes, kernels.Tensor{Rows: rows, Cols: cols, Type: g.element}, nil
}

// checkRef refuses a reference to another slab than info's.
func checkRef(info schema.PoolInfo, ref schema.SlotRef) error {
	if ref.Pool != info.Pool || ref.Incarnation != info.Incarnation {
		return fmt.Errorf("%w: slot of %s/%x, the slab is %s/%x", ErrStale, ref.Pool, ref.Incarnation, info.Pool, info.Incarnation)
	}
	if ref.Slot >= info.Slots {
		return fmt.Errorf("%w: slot %d of %d", ErrForged, ref.Slot, info.Slots)
	}
	return nil
}
