// Package tensorboard writes scalars as TensorBoard reads them: an event file of framed protocol buffer records
// (tensorflow/core/util/event.proto, framed as in tensorflow/core/lib/io/record_writer.h).
package tensorboard

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Writer appends to one event file. One goroutine uses it.
type Writer struct{ file *os.File }

// Scalar is a value of a curve.
type Scalar struct {
	Tag   string
	Value float64
}

// Create makes a new event file in dir. TensorBoard reads all of a folder's files as one run, later steps over earlier.
func Create(dir string, now time.Time) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("tensorboard events: %w", err)
	}
	name := fmt.Sprintf("events.out.tfevents.%d.%d.penstock", now.UnixNano(), os.Getpid())
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("tensorboard events: %w", err)
	}
	w := &Writer{f}
	version := protowire.AppendString(protowire.AppendTag(nil, 3, protowire.BytesType), "brain.Event:2")
	if err := w.event(now, 0, version); err != nil {
		f.Close()
		return nil, err
	}
	return w, nil
}

// Add writes scalars of one step.
func (w *Writer) Add(now time.Time, step int64, scalars ...Scalar) error {
	var summary []byte
	for _, s := range scalars {
		v := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), s.Tag)
		v = protowire.AppendFixed32(protowire.AppendTag(v, 2, protowire.Fixed32Type), math.Float32bits(float32(s.Value)))
		summary = protowire.AppendBytes(protowire.AppendTag(summary, 1, protowire.BytesType), v)
	}
	return w.event(now, step, protowire.AppendBytes(protowire.AppendTag(nil, 5, protowire.BytesType), summary))
}

// event frames one record: length, its checksum, data, its checksum.
func (w *Writer) event(now time.Time, step int64, what []byte) error {
	data := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(float64(now.UnixMicro())/1e6))
	if step != 0 {
		data = protowire.AppendVarint(protowire.AppendTag(data, 2, protowire.VarintType), uint64(step))
	}
	data = append(data, what...)
	rec := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	rec = binary.LittleEndian.AppendUint32(rec, masked(rec))
	rec = append(rec, data...)
	rec = binary.LittleEndian.AppendUint32(rec, masked(data))
	if _, err := w.file.Write(rec); err != nil {
		return fmt.Errorf("tensorboard events: %w", err)
	}
	return nil
}

// masked is the CRC32C of b, rotated and shifted so that a checksum of data with checksums in it stays good.
func masked(b []byte) uint32 {
	c := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return (c>>15 | c<<17) + 0xa282ead8
}

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }
