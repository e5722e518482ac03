package reduce

import (
	"encoding/binary"
	"fmt"
	"math"
)

// noteFloats is the room for a note behind a slot's elements: its length in bytes, then the bytes, four a float.
const noteFloats = 1024

func writeNote(room []float32, note []byte) error {
	if len(note) > 4*(noteFloats-1) {
		return fmt.Errorf("a note of %d bytes does not fit %d", len(note), 4*(noteFloats-1))
	}
	room[0] = math.Float32frombits(uint32(len(note)))
	var last [4]byte
	for i := 1; len(note) > 0; i++ {
		n := copy(last[:], note)
		clear(last[n:])
		room[i] = math.Float32frombits(binary.LittleEndian.Uint32(last[:]))
		note = note[n:]
	}
	return nil
}

func readNote(room []float32) ([]byte, error) {
	n := int(math.Float32bits(room[0]))
	if n > 4*(noteFloats-1) {
		return nil, fmt.Errorf("a note of %d bytes does not fit %d", n, 4*(noteFloats-1))
	}
	note := make([]byte, 0, n+4)
	for i := 1; len(note) < n; i++ {
		note = binary.LittleEndian.AppendUint32(note, math.Float32bits(room[i]))
	}
	return note[:n], nil
}
