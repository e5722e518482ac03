package hf

import (
	"hash"

	"golang.org/x/sync/errgroup"

	"penstock/schema/safetensors"
)

// File is a file to be written with one tensor of a drafter's shapes each: its weights, or something per weight.
type File struct {
	Path string
	From Source
	Sum  hash.Hash // sees the file's bytes, unless it is nil
}

// WriteTensors writes files of tensors of type F32 or BF16 side by side, and syncs them. The caller's goroutine reads the
// sources, one after another. The files belong in a directory that the caller drops after a failure: some may be in it.
func WriteTensors(cfg DrafterConfig, dtype safetensors.DType, files ...File) error {
	var specs []safetensors.Spec
	for _, s := range cfg.Shapes() {
		specs = append(specs, safetensors.Spec{Name: s.Name, DType: dtype, Shape: s.Dims})
	}
	var fill []safetensors.Filling
	for _, f := range files {
		w, err := safetensors.Create(f.Path, specs, map[string]string{"format": "pt"})
		if err != nil {
			return err
		}
		defer w.Abort()
		fill = append(fill, safetensors.Filling{Writer: w, From: f.From, Sum: f.Sum})
	}
	if err := safetensors.Fill(fill...); err != nil {
		return err
	}
	var commits errgroup.Group
	for _, f := range fill {
		commits.Go(f.Commit)
	}
	return commits.Wait()
}
