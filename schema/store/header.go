package store

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"
)

const (
	headerSize = 256
	entrySize  = 24
	wordSize   = 4
)

var magic = [8]byte{'P', 'S', 'T', 'O', 'K', 'E', 'N', 'S'}

// Info says what a store was made of.
type Info struct {
	Data      [32]byte // hash of everything that decides the content: the store's identity
	Tokenizer [32]byte // hash of tokenizer.json
	Template  [32]byte // fingerprint of the chat template
	Vocab     uint32   // ids are below it
	MaxLength uint32   // tokens; no document is longer
}

// Name is the store's identity in text, half of its data hash: 32 hexadecimal digits.
func (i Info) Name() string { return hex.EncodeToString(i.Data[:16]) }

// header is the file's first 256 bytes.
type header struct {
	Magic      [8]byte
	Version    uint32
	_          uint32
	Info       Info
	Documents  uint64
	Tokens     uint64
	Supervised uint64
	BlockBytes uint64 // of all blocks with their padding
	BlockSum   uint64 // xxhash of the blocks
	IndexSum   uint64 // xxhash of the index
	_          [80]byte
	Sum        uint64 // xxhash of the header up to here
}

// entry is one document in the index.
type entry struct {
	Start      uint64 // of the block, in words from the first block
	Length     uint32
	Supervised uint32
	Key        uint64
}

// maskWords is the number of words that hold n mask bits.
func maskWords(n uint32) uint64 { return (uint64(n) + 31) / 32 }

func (h header) encode() []byte {
	var b bytes.Buffer
	b.Grow(headerSize)
	binary.Write(&b, binary.LittleEndian, h) // a buffer takes everything
	data := b.Bytes()
	binary.LittleEndian.PutUint64(data[headerSize-8:], xxhash.Sum64(data[:headerSize-8]))
	return data
}

// decodeHeader reads the header of a file of the given size and checks that the sizes in it add up to that.
func decodeHeader(data []byte, size int64) (h header, err error) {
	if len(data) < headerSize {
		return h, fmt.Errorf("%w: it has %d bytes, fewer than its header of %d", ErrDamaged, len(data), headerSize)
	}
	data = data[:headerSize]
	if _, err := binary.Decode(data, binary.LittleEndian, &h); err != nil {
		return h, fmt.Errorf("%w: decode its header: %w", ErrDamaged, err)
	}
	switch {
	case h.Magic != magic:
		return h, fmt.Errorf("%w: it does not start as a token store does", ErrDamaged)
	case h.Version != Version:
		return h, fmt.Errorf("a token store of version %d, this program reads version %d: prepare the data again", h.Version, Version)
	case h.Sum != xxhash.Sum64(data[:headerSize-8]):
		return h, fmt.Errorf("%w: its header does not match its checksum", ErrDamaged)
	case h.Documents > math.MaxInt32 || h.BlockBytes > math.MaxInt64/2 || h.BlockBytes%8 != 0:
		return h, fmt.Errorf("%w: its header has impossible sizes", ErrDamaged)
	}
	if want := headerSize + int64(h.BlockBytes) + int64(h.Documents)*entrySize; size != want {
		return h, fmt.Errorf("%w: it has %d bytes, its header says %d", ErrDamaged, size, want)
	}
	return h, nil
}
