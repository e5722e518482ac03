package store

import (
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"
)

// Store is an open token store. It may be read from many goroutines at once.
type Store struct {
	data   []byte // the mapped file
	header header
	words  []uint32 // all blocks
	index  []entry
}

// Open maps a store and checks its header, its size and its index, so that reading any document stays inside the file.
// The documents' own checksum is Verify's.
func Open(path string) (*Store, error) {
	s, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", path, err)
	}
	return s, nil
}

func open(path string) (*Store, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !stat.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: it is no regular file", ErrDamaged)
	}
	head := make([]byte, min(headerSize, stat.Size()))
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, err
	}
	if _, err := decodeHeader(head, stat.Size()); err != nil {
		return nil, err
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(stat.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map it: %w", err)
	}
	s, err := parse(data)
	if err != nil {
		unix.Munmap(data)
		return nil, err
	}
	return s, nil
}

// parse checks a whole store. data starts at a multiple of 8 bytes.
func parse(data []byte) (*Store, error) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, fmt.Errorf("token stores are read in place on little-endian machines alone")
	}
	h, err := decodeHeader(data, int64(len(data)))
	if err != nil {
		return nil, err
	}
	blocks, index := data[headerSize:headerSize+h.BlockBytes], data[headerSize+h.BlockBytes:]
	if xxhash.Sum64(index) != h.IndexSum {
		return nil, fmt.Errorf("%w: its index does not match its checksum", ErrDamaged)
	}
	s := &Store{data: data, header: h}
	if len(blocks) > 0 {
		s.words = unsafe.Slice((*uint32)(unsafe.Pointer(&blocks[0])), len(blocks)/wordSize)
	}
	if len(index) > 0 {
		s.index = unsafe.Slice((*entry)(unsafe.Pointer(&index[0])), len(index)/entrySize)
	}
	var words, tokens, supervised uint64
	for i, e := range s.index {
		if e.Start != words || e.Length == 0 || e.Length > h.Info.MaxLength || e.Supervised > e.Length {
			return nil, fmt.Errorf("%w: the index entry of document %d is wrong", ErrDamaged, i)
		}
		words += uint64(e.Length) + maskWords(e.Length)
		tokens += uint64(e.Length)
		supervised += uint64(e.Supervised)
	}
	if words+words%2 != uint64(len(s.words)) || tokens != h.Tokens || supervised != h.Supervised {
		return nil, fmt.Errorf("%w: its documents do not add up to its header's counts", ErrDamaged)
	}
	return s, nil
}

// Close unmaps the store. No slice of it may be used afterwards.
func (s *Store) Close() error {
	data := s.data
	s.data, s.words, s.index = nil, nil, nil
	if data == nil {
		return nil
	}
	return unix.Munmap(data)
}

// Info says what the store was made of.
func (s *Store) Info() Info { return s.header.Info }

// Len is the number of documents.
func (s *Store) Len() int { return len(s.index) }

// Tokens counts the tokens of all documents.
func (s *Store) Tokens() int { return int(s.header.Tokens) }

// Supervised counts the supervised tokens of all documents.
func (s *Store) Supervised() int { return int(s.header.Supervised) }

// Length is the number of tokens of document i.
func (s *Store) Length(i int) int { return int(s.index[i].Length) }

// Key is the key of document i: a stable hash of its source text.
func (s *Store) Key(i int) uint64 { return s.index[i].Key }

// Doc returns the token ids and the loss mask of document i. Both lie in the mapped file and must not be written to.
func (s *Store) Doc(i int) (ids []int32, mask Mask) {
	e := s.index[i]
	end := e.Start + uint64(e.Length)
	words := s.words[e.Start:end:end]
	ids = unsafe.Slice((*int32)(unsafe.Pointer(&words[0])), len(words))
	return ids, Mask{s.words[end : end+maskWords(e.Length)], int(e.Length)}
}
