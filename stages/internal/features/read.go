package features

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"penstock/kernels"
	"penstock/schema/safetensors"
)

// Reader gives the features of documents. One goroutine uses it.
type Reader struct {
	Note
	dir   string
	files []*safetensors.File
}

// Open maps a folder's files as they are needed.
func Open(dir string) (*Reader, error) {
	n, err := readNote(dir)
	if err != nil {
		return nil, fmt.Errorf("open features: %w", err)
	}
	return &Reader{Note: n, dir: dir, files: make([]*safetensors.File, len(n.Starts))}, nil
}

// Load puts the features of packed documents into out [K·T, H], plane after plane, as the target's forward would. docs are
// the documents' numbers; ids and offsets pack them.
func (r *Reader) Load(dev kernels.Device, docs, ids, offsets []int32, out kernels.Tensor) error {
	for at, doc := range docs {
		lo, hi := int(offsets[at]), int(offsets[at+1])
		if err := r.document(dev, int(doc), ids[lo:hi], lo, len(ids), out); err != nil {
			return fmt.Errorf("features of document %d: %w", doc, err)
		}
	}
	return nil
}

func (r *Reader) document(dev kernels.Device, doc int, ids []int32, lo, total int, out kernels.Tensor) error {
	f, err := r.file(doc)
	if err != nil {
		return err
	}
	was, err := f.Tensor(idsName(doc))
	if err != nil {
		return err
	}
	if kept, err := was.Int32(); err != nil || !slices.Equal(kept, ids) {
		return errors.Join(errors.New("they were made of other tokens: prepare them again"), err)
	}
	v, err := f.Tensor(hiddenName(doc))
	if err != nil {
		return err
	}
	if err := v.Expect(len(r.Taps)*len(ids), r.Hidden); err != nil {
		return err
	}
	values, err := v.Float32()
	if err != nil {
		return err
	}
	plane := len(ids) * r.Hidden
	for k := range r.Taps {
		dev.Upload(out.RowRange(k*total+lo, k*total+lo+len(ids)), values[k*plane:(k+1)*plane])
	}
	return nil
}

func (r *Reader) file(doc int) (*safetensors.File, error) {
	if doc < 0 || doc >= r.Documents {
		return nil, fmt.Errorf("there are only %d", r.Documents)
	}
	n := sort.SearchInts(r.Starts, doc+1) - 1
	if r.files[n] == nil {
		f, err := safetensors.Open(fileName(r.dir, n))
		if err != nil {
			return nil, err
		}
		r.files[n] = f
	}
	return r.files[n], nil
}

// Close unmaps the files.
func (r *Reader) Close() error {
	var errs []error
	for _, f := range r.files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
