package prepare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
)

// parquetRows are decoded at a time.
const parquetRows = 256

// readParquet reads the rows of a Parquet file as the JSON objects that they stand for. The file's sum is taken first: its
// rows are not read in the order of its bytes.
func readParquet(ctx context.Context, file dataFile, f *os.File, emit func(chunk) error) (err error) {
	defer func() {
		if p := recover(); p != nil { // the library panics on some damaged files
			err = fmt.Errorf("it is a damaged Parquet file: %v", p)
		}
	}()
	sum, err := sumFile(ctx, file.path)
	if err != nil {
		return err
	}
	if err := file.unchanged(sum); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	p, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		return fmt.Errorf("it is no Parquet file: %w", err)
	}
	rows := parquet.NewGenericReader[any](p)
	defer rows.Close()
	c := chunker{chunk: chunk{file: file.path}, emit: emit}
	buf := make([]any, parquetRows)
	for line := 1; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := rows.Read(buf)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("row %d: %w", line, err)
		}
		for _, row := range buf[:n] {
			data, err := json.Marshal(row)
			if err != nil {
				return fmt.Errorf("row %d: %w", line, err)
			}
			raw := rawRow{line: line, data: data}
			if len(data) > maxRow {
				raw.data, raw.long = nil, true
			}
			if err := c.add(raw); err != nil {
				return err
			}
			line++
		}
		clear(buf)
		if err != nil {
			return c.flush()
		}
	}
}
