// Package lineage keeps the run directory's ledger file: which windows committed in which generation, one JSON
// object a line. The surviving lineage is what a reader concludes from it.
package lineage

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Line is one line of the ledger file: the start of a generation (Open) or the commit of a window.
type Line struct {
	Gen       uint32   `json:"gen"`
	Open      bool     `json:"open,omitempty"` // the generation starts at Window; it voids what came after in older ones
	Window    uint32   `json:"window"`
	Epoch     uint32   `json:"epoch,omitempty"`
	Batches   []uint32 `json:"batches,omitempty"` // added, by plan index
	Dead      []uint32 `json:"dead,omitempty"`    // rejected, by plan index
	Documents uint32   `json:"documents,omitempty"`
	Tokens    uint64   `json:"tokens,omitempty"`
	Slots     uint64   `json:"slots,omitempty"`
	Keys      uint64   `json:"keys,omitempty"`    // sum of the documents' keys as the trainer read them
	Skipped   bool     `json:"skipped,omitempty"` // the window's gradient was not finite: no step was taken
}

// Writer appends lines to a ledger file. It belongs to the trainer, which holds the run directory's lock.
type Writer struct {
	f       *os.File
	pending []byte // lines that could not be written yet, the first one perhaps in part
}

// Open opens path for appending, creating it if needed. A torn last line, left by a kill, is cut off.
func Open(path string) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	if err := cutTorn(f); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %q: %w", path, err), f.Close())
	}
	return &Writer{f: f}, nil
}

// Append writes one line, or keeps it until it can be written: a full disk ends nothing before Sync. It is not durable
// before that.
func (w *Writer) Append(l Line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("ledger line of window %d: %w", l.Window, err)
	}
	w.pending = append(append(w.pending, b...), '\n')
	_ = w.flush() // Sync tries again, and tells
	return nil
}

func (w *Writer) flush() error {
	n, err := w.f.Write(w.pending)
	w.pending = w.pending[n:]
	if err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return nil
}

// Sync makes the lines durable; a checkpoint that covers them comes after.
func (w *Writer) Sync() error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.f.Sync(); err != nil {
		return fmt.Errorf("sync ledger: %w", err)
	}
	return nil
}

// Close closes the file.
func (w *Writer) Close() error { return w.f.Close() }

// Read returns the lines of a ledger file. A torn last line is left out; any other bad line is an error with its number.
func Read(path string) ([]Line, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	var lines []Line
	sc := bufio.NewScanner(bytes.NewReader(b[:bytes.LastIndexByte(b, '\n')+1]))
	sc.Buffer(nil, 1<<24)
	for n := 1; sc.Scan(); n++ {
		var l Line
		dec := json.NewDecoder(bytes.NewReader(sc.Bytes()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&l); err != nil {
			return nil, fmt.Errorf("%s:%d: not a ledger line: %w", path, n, err)
		}
		lines = append(lines, l)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("read ledger %q: %w", path, err)
	}
	return lines, nil
}

func cutTorn(f *os.File) error {
	b, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	end := int64(bytes.LastIndexByte(b, '\n') + 1)
	if end < int64(len(b)) {
		if err := f.Truncate(end); err != nil {
			return err
		}
	}
	_, err = f.Seek(end, io.SeekStart)
	return err
}
