package reduce

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"penstock/broker/policy"
	"penstock/kernels"
	"penstock/schema"
)

// far is a device whose memory the host does not see, as a GPU's: tensors have an address alone.
type far struct {
	kernels.Ref
	memory [][]float32 // by the upper half of the address, counted from 1
}

func (f *far) Alloc(rows, cols int) kernels.Tensor {
	f.memory = append(f.memory, make([]float32, rows*cols))
	return kernels.Tensor{Rows: rows, Cols: cols, Ptr: uintptr(len(f.memory)) << 32}
}

func (f *far) at(t kernels.Tensor) []float32 {
	if t.F32 != nil {
		panic("far: a tensor in host memory")
	}
	from := int(uint32(t.Ptr)) / 4
	return f.memory[t.Ptr>>32-1][from : from+t.Len()]
}

func (f *far) Upload(dst kernels.Tensor, src []float32)   { copy(f.at(dst), src) }
func (f *far) Download(dst []float32, src kernels.Tensor) { copy(dst, f.at(src)) }
func (f *far) Zero(t kernels.Tensor)                      { clear(f.at(t)) }
func (f *far) Copy(dst, src kernels.Tensor)               { copy(f.at(dst), f.at(src)) }
func (f *far) Add(dst, src kernels.Tensor) {
	to, from := f.at(dst), f.at(src)
	for i := range to {
		to[i] += from[i]
	}
}

// Ranks on GPUs sum up in their own memory and exchange parts, and state, through the host's.
func TestDevicesThatTheHostDoesNotSee(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	infos := map[policy.Member]schema.PoolInfo{}
	find := func(_ context.Context, m policy.Member) (schema.PoolInfo, error) { return infos[m], nil }
	devices, members := []*far{{}, {}}, []policy.Member{{Rank: "draft-1", Incarnation: 1}, {Rank: "draft-2", Incarnation: 2}}
	var groups []*Shared
	for i, m := range members {
		g, err := Share(devices[i], m, dir, 1, elements, find)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
		infos[m], groups = g.Info(), append(groups, g)
	}
	round, want := Round{1, 2, 3}, make([]float32, elements)
	for i, g := range groups {
		part := kernels.Host(1, elements, make([]float32, elements))
		fill(part, float64(i))
		devices[i].Upload(g.Part(0), part.F32)
		for k, v := range part.F32 {
			want[k] += v
		}
		if err := g.Bring(round, 0, []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	var sums errgroup.Group
	for i, g := range groups {
		sums.Go(func() error {
			total := devices[i].Alloc(1, elements)
			notes, err := g.Sum(t.Context(), round, []Part{{members[0], 0}, {members[1], 0}}, total)
			if err == nil && (!slices.Equal(devices[i].at(total), want) || len(notes) != 2 || notes[1][0] != 1) {
				t.Errorf("member %d: another sum, or notes %v", i, notes)
			}
			return err
		})
	}
	if err := sums.Wait(); err != nil {
		t.Fatal(err)
	}
	var given, taken [stateSlots]kernels.Tensor
	for i := range given {
		given[i], taken[i] = devices[0].Alloc(1, elements), devices[1].Alloc(1, elements)
		fill(kernels.Host(1, elements, devices[0].at(given[i])), float64(i))
	}
	if err := groups[0].Offer(Round{Gen: 1, Window: 4}, given, []byte("state")); err != nil {
		t.Fatal(err)
	}
	if note, err := groups[1].Fetch(t.Context(), members[0], Round{Gen: 1, Window: 4}, taken); err != nil || string(note) != "state" {
		t.Fatalf("note %q, %v", note, err)
	}
	for i := range given {
		if !slices.Equal(devices[0].at(given[i]), devices[1].at(taken[i])) {
			t.Errorf("tensor %d of the state differs", i)
		}
	}
}
