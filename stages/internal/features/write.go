package features

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"penstock/kernels"
	"penstock/schema/safetensors"
	"penstock/schema/store"
	"penstock/stages/internal/model"
)

// Options say what is written.
type Options struct {
	Dir    string
	Target string // its fingerprint
	Taps   []int
	Hidden int
	DType  safetensors.DType // BF16 or F32

	tokens int // of a file, for tests
}

// Write runs the target over a store's documents and keeps what its taps say. Files that are whole already are left as
// they are, so that it goes on where it was interrupted.
func Write(ctx context.Context, dev kernels.Device, m *model.Target, s *store.Store, o Options) (Note, error) {
	n := Note{Version: noteVersion, Data: s.Info().Name(), Target: o.Target, Taps: o.Taps, Hidden: o.Hidden, DType: o.DType, Documents: s.Len()}
	if o.DType != safetensors.BF16 && o.DType != safetensors.F32 {
		return n, fmt.Errorf("write features: they are kept as BF16 or F32, not %s", o.DType)
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return n, fmt.Errorf("write features: %w", err)
	}
	if old, err := readNote(o.Dir); err == nil {
		err := errors.Join(old.Check(n.Data, n.Taps, n.Hidden), old.CheckTarget(n.Target))
		if old.DType != n.DType {
			err = errors.Join(err, fmt.Errorf("kept as %s, not %s", old.DType, n.DType))
		}
		if err != nil {
			return n, fmt.Errorf("write features: %s holds others: %w", o.Dir, err)
		}
		return old, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return n, fmt.Errorf("write features: %w", err)
	}
	if o.tokens == 0 {
		o.tokens = fileTokens
	}
	longest := 0
	for i := range s.Len() {
		longest = max(longest, s.Length(i))
	}
	out := dev.Alloc(len(o.Taps)*longest, o.Hidden)
	n.Starts = spread(s, o.tokens)
	for f, lo := range n.Starts {
		hi := s.Len()
		if f+1 < len(n.Starts) {
			hi = n.Starts[f+1]
		}
		path := fileName(o.Dir, f)
		if whole(path, n, lo, hi, s) {
			continue
		}
		if err := writeFile(ctx, dev, m, s, n, out, path, lo, hi); err != nil {
			return n, fmt.Errorf("write features: %w", err)
		}
	}
	return n, n.write(o.Dir)
}

// whole tells whether a file holds documents [lo, hi) of this store with these taps.
func whole(path string, n Note, lo, hi int, s *store.Store) bool {
	f, err := safetensors.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if f.Metadata()["made_of"] != n.madeOf() {
		return false
	}
	for i := lo; i < hi; i++ {
		v, err := f.Tensor(hiddenName(i))
		if err != nil || v.DType != n.DType || v.Expect(len(n.Taps)*s.Length(i), n.Hidden) != nil {
			return false
		}
	}
	return true
}

func (n Note) madeOf() string { return fmt.Sprint(n.Data, n.Target, n.Taps) }

func writeFile(ctx context.Context, dev kernels.Device, m *model.Target, s *store.Store, n Note, out kernels.Tensor, path string, lo, hi int) error {
	var specs []safetensors.Spec
	for i := lo; i < hi; i++ {
		specs = append(specs, safetensors.Spec{Name: idsName(i), DType: safetensors.I32, Shape: []int{s.Length(i)}},
			safetensors.Spec{Name: hiddenName(i), DType: n.DType, Shape: []int{len(n.Taps) * s.Length(i), n.Hidden}})
	}
	w, err := safetensors.Create(path, specs, map[string]string{"made_of": n.madeOf()})
	if err != nil {
		return err
	}
	defer w.Abort()
	for i := lo; i < hi; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		ids, _ := s.Doc(i)
		planes := out.RowRange(0, len(n.Taps)*len(ids))
		if err := m.Forward(ids, []int32{0, int32(len(ids))}, n.Taps, planes); err != nil {
			return fmt.Errorf("document %d: %w", i, err)
		}
		if c := dev.CheckFeatures(planes); !c.Finite {
			return fmt.Errorf("document %d: the target's layers give numbers that are not finite", i)
		}
		host := make([]float32, planes.Len())
		dev.Download(host, planes)
		if err := dev.Sync(); err != nil {
			return err
		}
		raw, err := binary.Append(nil, binary.LittleEndian, ids)
		if err != nil {
			return err
		}
		if err := errors.Join(w.Raw(idsName(i), raw), w.Float32(hiddenName(i), host)); err != nil {
			return err
		}
	}
	return w.Commit()
}
