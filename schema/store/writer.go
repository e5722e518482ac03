package store

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"penstock/schema/internal/durable"
)

// Writer writes a store aside, document by document; Commit puts it in place. Memory grows by the index alone.
type Writer struct {
	file   *durable.File
	out    *bufio.Writer
	sum    *xxhash.Digest // of the blocks
	blocks io.Writer      // to out and sum
	header header
	index  []byte
	words  uint64
	block  []byte
}

// Create starts a store at path. The caller ends it with Commit or Abort.
func Create(path string, info Info) (*Writer, error) {
	f, err := durable.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create store: %w", err)
	}
	w := &Writer{file: f, out: bufio.NewWriterSize(f, 1<<20), sum: xxhash.New()}
	w.blocks = io.MultiWriter(w.out, w.sum)
	w.header = header{Magic: magic, Version: Version, Info: info}
	if _, err := w.out.Write(make([]byte, headerSize)); err != nil {
		f.Abort()
		return nil, fmt.Errorf("create store %q: %w", path, err)
	}
	return w, nil
}

// Add appends a document. mask has one entry an id: 1 where it is supervised, else 0. key is a stable hash of the
// document's source text.
func (w *Writer) Add(key uint64, ids []int32, mask []uint8) error {
	n := len(ids)
	switch {
	case n == 0 || n != len(mask):
		return fmt.Errorf("add document %d to the store: %d ids with %d mask entries", w.header.Documents, n, len(mask))
	case n > int(w.header.Info.MaxLength):
		return fmt.Errorf("add document %d to the store: %d ids, the longest allowed is %d", w.header.Documents, n, w.header.Info.MaxLength)
	}
	b := w.block[:0]
	for _, id := range ids {
		if id < 0 || uint32(id) >= w.header.Info.Vocab {
			return fmt.Errorf("add document %d to the store: id %d is outside the vocabulary of %d", w.header.Documents, id, w.header.Info.Vocab)
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	var supervised, word uint32
	for i, m := range mask {
		if m != 0 {
			word |= 1 << (i % 32)
			supervised++
		}
		if i%32 == 31 || i == n-1 {
			b = binary.LittleEndian.AppendUint32(b, word)
			word = 0
		}
	}
	w.block = b
	if _, err := w.blocks.Write(b); err != nil {
		return fmt.Errorf("write store: %w", err)
	}
	w.index = binary.LittleEndian.AppendUint64(w.index, w.words)
	w.index = binary.LittleEndian.AppendUint32(w.index, uint32(n))
	w.index = binary.LittleEndian.AppendUint32(w.index, supervised)
	w.index = binary.LittleEndian.AppendUint64(w.index, key)
	w.words += uint64(len(b) / wordSize)
	w.header.Documents++
	w.header.Tokens += uint64(n)
	w.header.Supervised += uint64(supervised)
	return nil
}

// Commit completes the store and puts it at its path.
func (w *Writer) Commit() error {
	if err := w.finish(); err != nil {
		w.Abort()
		return fmt.Errorf("write store: %w", err)
	}
	return w.file.Commit()
}

func (w *Writer) finish() error {
	if w.words%2 != 0 {
		if _, err := w.blocks.Write(make([]byte, wordSize)); err != nil {
			return err
		}
		w.words++
	}
	if _, err := w.out.Write(w.index); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	w.header.BlockBytes = w.words * wordSize
	w.header.BlockSum = w.sum.Sum64()
	w.header.IndexSum = xxhash.Sum64(w.index)
	_, err := w.file.WriteAt(w.header.encode(), 0)
	return err
}

// Abort removes what was written. After Commit it does nothing, so it may be deferred.
func (w *Writer) Abort() { w.file.Abort() }
