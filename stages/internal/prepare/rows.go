package prepare

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	chunkBytes = 256 << 10 // rows travel in chunks of about this size
	maxRow     = 64 << 20  // a longer row is rejected unread
)

// rawRow is one line of a data file that is not blank.
type rawRow struct {
	line int // from 1
	data []byte
	long bool // over maxRow; data is empty
}

// chunk is a few rows of one file, in order.
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
	sum := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(reader{ctx, f}, sum), 1<<20)
	c, size := chunk{file: file.path}, 0
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
			c.rows = append(c.rows, row)
			size += len(row.data)
		}
		if len(c.rows) > 0 && (size >= chunkBytes || last) {
			if err := emit(c); err != nil {
				return err
			}
			c, size = chunk{file: file.path}, 0
		}
		if last {
			break
		}
	}
	if [sha256.Size]byte(sum.Sum(nil)) != file.sum {
		return fmt.Errorf("it changed while it was read; prepare again when it is complete")
	}
	return nil
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
