package mem

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"penstock/schema"
)

const (
	maxSlots = 1 << 16
	maxBytes = 1 << 44 // of a slab
)

// geometry is the layout of a slab and of its control memory.
type geometry struct {
	slots     int
	slotBytes int // whole pages
}

func newGeometry(slots, slotBytes uint64) (geometry, error) {
	page := uint64(os.Getpagesize())
	if slots < 1 || slots > maxSlots || slotBytes < 1 || slotBytes > maxBytes {
		return geometry{}, fmt.Errorf("%d slots of %d bytes", slots, slotBytes)
	}
	slotBytes = (slotBytes + page - 1) / page * page
	if slots*slotBytes > maxBytes {
		return geometry{}, fmt.Errorf("%d slots of %d bytes", slots, slotBytes)
	}
	return geometry{int(slots), int(slotBytes)}, nil
}

const tokenChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// check returns the layout of the slab asked for.
func (s Spec) check() (geometry, error) {
	if s.Incarnation == 0 || s.Pool == "" || len(s.Pool) > 64 || strings.Trim(s.Pool, tokenChars) != "" {
		return geometry{}, errors.New("needs an incarnation and a name of 1 to 64 letters, digits, '_' or '-'")
	}
	return newGeometry(uint64(max(0, s.Slots)), uint64(max(0, s.SlotBytes)))
}

func (g geometry) bytes() int { return g.slots * g.slotBytes }

// span returns the byte of the slab from which rows·cols float32 of a slot lie.
func (g geometry) span(slot uint32, rows, cols int) (from int, err error) {
	if uint64(slot) >= uint64(g.slots) {
		return 0, fmt.Errorf("%w: slot %d of %d", ErrForged, slot, g.slots)
	}
	if rows < 0 || cols < 0 || cols > 0 && rows > g.slotBytes/4/cols {
		return 0, fmt.Errorf("%w: %d×%d float32 in a slot of %d bytes", ErrForged, rows, cols, g.slotBytes)
	}
	return int(slot) * g.slotBytes, nil
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
