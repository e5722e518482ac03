package checkpoint

import (
	"os"
	"testing"

	"penstock/schema/hf"
)

// benchState has 40 M parameters, 480 MB with the moments.
func benchState() (s State, bytes int64) {
	s = testState(1)
	s.Drafter.HiddenSize, s.Drafter.TargetHiddenSize, s.Drafter.IntermediateSize = 1024, 1024, 4096
	s.Drafter.Layers, s.Drafter.Heads, s.Drafter.KVHeads, s.Drafter.HeadDim = 2, 16, 8, 128
	s.Drafter.LayerTypes = []string{hf.FullAttention, hf.FullAttention}
	for _, sh := range s.Drafter.Shapes() {
		n := 1
		for _, d := range sh.Dims {
			n *= d
		}
		bytes += 3 * 4 * int64(n)
	}
	return s, bytes
}

// memoryDir is a directory in memory.
func memoryDir(b *testing.B) string {
	dir, err := os.MkdirTemp("/dev/shm", "checkpoint-*")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// BenchmarkSave replaces a checkpoint by the next one.
func BenchmarkSave(b *testing.B) {
	root := memoryDir(b)
	s, bytes := benchState()
	device := make([]float32, 1<<24) // longer than a tensor
	source(1)(device, "", 0)
	get := func(dst []float32, _ string, at int) error {
		copy(dst, device[at:])
		return nil
	}
	b.SetBytes(bytes)
	for b.Loop() {
		s.Window++
		if _, err := Save(root, s, Tensors{get, get, get}, 1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen is what opening costs; nothing is copied.
func BenchmarkOpen(b *testing.B) {
	s, bytes := benchState()
	dir, err := Save(memoryDir(b), s, tensors(1), 1)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(bytes)
	for b.Loop() {
		c, err := Open(dir)
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
