package prepare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"strings"

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
			if err := c.add(parquetRow(line, row)); err != nil {
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

// rowKeys are the columns that rows are read from.
var rowKeys = func() map[string]bool {
	keys, t := map[string]bool{}, reflect.TypeFor[jsonRow]()
	for i := range t.NumField() {
		keys[t.Field(i).Tag.Get("json")] = true
	}
	return keys
}()

// parquetRow writes one row as JSON, without the columns that say nothing here, whose values JSON may not have.
func parquetRow(line int, row any) rawRow {
	if columns, ok := row.(map[string]any); ok {
		maps.DeleteFunc(columns, func(key string, _ any) bool { return !rowKeys[strings.ToLower(key)] })
	}
	data, err := json.Marshal(row)
	if err != nil || len(data) > maxRow {
		return rawRow{line: line, long: err == nil, bad: err}
	}
	return rawRow{line: line, data: data}
}
