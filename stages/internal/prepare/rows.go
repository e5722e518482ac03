package prepare

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
)

const (
	chunkBytes = 256 << 10 // rows travel in chunks of about this size
	maxRow     = 64 << 20  // a longer row is rejected unread
)

// rawRow is one row of a data file: a line that is not blank, or a row of a Parquet file.
type rawRow struct {
	line int // from 1
	data []byte
	long bool  // over maxRow; data is empty
	bad  error // why the row could not be read; data is empty
}

// chunk is a few rows of one file, in order. The rows of a file fall into the same chunks each time.
type chunk struct {
	file string
	rows []rawRow
}

// readChunks reads a file's rows and fails if the file is no longer what its sum says.
func readChunks(ctx context.Context, file dataFile, emit func(chunk) error) error {
	f, err := os.Open(file.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if strings.HasSuffix(file.path, ".parquet") {
		return readParquet(ctx, file, f, emit)
	}
	sum := sha256.New()
	text, closeText, err := decompressed(file.path, io.TeeReader(reader{ctx, f}, sum))
	if err != nil {
		return err
	}
	defer closeText()
	if err := readLines(file.path, text, emit); err != nil {
		return err
	}
	if _, err := io.Copy(sum, f); err != nil { // what may follow the compressed text
		return err
	}
	return file.unchanged([sha256.Size]byte(sum.Sum(nil)))
}

func (f dataFile) unchanged(sum [sha256.Size]byte) error {
	if sum != f.sum {
		return errors.New("it changed while it was read; prepare again when it is complete")
	}
	return nil
}

// decompressed reads .gz and .zst files as what they hold.
func decompressed(path string, r io.Reader) (io.Reader, func(), error) {
	switch {
	case strings.HasSuffix(path, ".gz"):
		z, err := gzip.NewReader(bufio.NewReaderSize(r, 1<<20))
		if err != nil {
			return nil, nil, fmt.Errorf("it is no gzip file: %w", err)
		}
		return z, func() { z.Close() }, nil
	case strings.HasSuffix(path, ".zst"):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, fmt.Errorf("it is no zstd file: %w", err)
		}
		return z, z.Close, nil
	}
	return r, func() {}, nil
}

func readLines(path string, text io.Reader, emit func(chunk) error) error {
	in := bufio.NewReaderSize(text, 1<<20)
	c := chunker{chunk: chunk{file: path}, emit: emit}
	for line := 1; ; line++ {
		row, err := readRow(in)
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return err
		}
		if line == 1 {
			row.data = bytes.TrimPrefix(row.data, []byte("\ufeff"))
		}
		if row.data = bytes.TrimSpace(row.data); len(row.data) > 0 || row.long {
			row.line = line
			if err := c.add(row); err != nil {
				return err
			}
		}
		if last {
			return c.flush()
		}
	}
}

// readRow reads one line. The error is io.EOF with the last one.
func readRow(in *bufio.Reader) (rawRow, error) {
	var row rawRow
	for {
		part, err := in.ReadSlice('\n')
		if len(row.data)+len(part) > maxRow {
			row.data, row.long = nil, true
		}
		if !row.long {
			row.data = append(row.data, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return row, err
		}
	}
}

// chunker gathers rows into chunks.
type chunker struct {
	chunk
	size int
	emit func(chunk) error
}

func (c *chunker) add(row rawRow) error {
	c.rows = append(c.rows, row)
	if c.size += len(row.data); c.size < chunkBytes {
		return nil
	}
	return c.flush()
}

func (c *chunker) flush() error {
	if len(c.rows) == 0 {
		return nil
	}
	full := c.chunk
	c.chunk, c.size = chunk{file: c.file}, 0
	return c.emit(full)
}
