package checkpoint

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"

	"penstock/schema/hf"
	"penstock/schema/internal/durable"
	"penstock/schema/safetensors"
)

// Tensors is what is trained, in float32. Save's own goroutine reads the sources, one after another.
type Tensors struct {
	Weights hf.Source
	M, V    hf.Source // AdamW's moments
}

// Save writes a checkpoint under root and returns its directory. It appears whole and synced or not at all; one of the
// same window is replaced. Then all but the newest keep are removed, and those of later windows too: they belong to a course of training
// that was given up. One process at a time may save under a root.
func Save(root string, s State, t Tensors, keep int) (string, error) {
	dir := dirOf(root, s.Window)
	fail := func(err error) (string, error) { return "", fmt.Errorf("checkpoint %s: %w", dir, err) }
	if keep < 1 {
		return fail(fmt.Errorf("keep is %d, want at least 1", keep))
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return fail(err)
	}
	if err := durable.Sweep(root); err != nil {
		return fail(err)
	}
	if err := durable.WriteDir(dir, func(aside string) error { return fill(aside, s, t) }); err != nil {
		return fail(err)
	}
	if err := prune(root, s.Window, keep); err != nil {
		return fail(err)
	}
	return dir, nil
}

func fill(dir string, s State, t Tensors) error {
	err := errors.Join(s.write(dir), hf.Describe(dir, s.Drafter, hf.Export{DType: safetensors.F32}))
	if err != nil {
		return err
	}
	files, sums := []hf.File{}, map[string]hash.Hash{}
	for _, f := range []struct {
		name string
		from hf.Source
	}{{safetensors.SingleFile, t.Weights}, {firstMoment, t.M}, {secondMoment, t.V}} {
		sums[f.name] = sha256.New()
		files = append(files, hf.File{Path: filepath.Join(dir, f.name), From: f.from, Sum: sums[f.name]})
	}
	if err := hf.WriteTensors(s.Drafter, safetensors.F32, files...); err != nil {
		return err
	}
	return writeManifest(dir, sums)
}

func prune(root string, newest uint32, keep int) error {
	entries, err := List(root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case e.Window > newest || keep == 0:
			err = errors.Join(err, durable.RemoveDir(e.Dir))
		default:
			keep--
		}
	}
	return err
}

// Checkpoint is an open checkpoint. Its tensors are mapped; Close ends that.
type Checkpoint struct {
	State
	Dir     string
	Weights *hf.Drafter
	M, V    *hf.Drafter // AdamW's moments
}

// Open verifies size and hash of every file in dir and opens it.
func Open(dir string) (*Checkpoint, error) {
	c, err := open(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	return c, nil
}

func open(dir string) (*Checkpoint, error) {
	if err := verify(dir); err != nil {
		return nil, err
	}
	s, err := readState(dir)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{State: s, Dir: dir}
	for _, f := range []struct {
		name string
		into **hf.Drafter
	}{{safetensors.SingleFile, &c.Weights}, {firstMoment, &c.M}, {secondMoment, &c.V}} {
		if *f.into, err = hf.OpenDrafter(s.Drafter, filepath.Join(dir, f.name)); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Close unmaps the tensors.
func (c *Checkpoint) Close() error {
	var err error
	for _, d := range []*hf.Drafter{c.Weights, c.M, c.V} {
		if d != nil {
			err = errors.Join(err, d.Close())
		}
	}
	return err
}
