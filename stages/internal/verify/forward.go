package verify

import (
	"fmt"

	"penstock/kernels"
	"penstock/kernels/kernelstest"
	"penstock/stages/internal/model"
)

const forwardFile = "target_forward.safetensors"

// forward runs the target on the packed documents for the captures, and on each document for the logits.
func (r *run) forward() error {
	if !r.golden.has(forwardFile) {
		return nil
	}
	f, err := r.golden.open(forwardFile)
	if err != nil {
		return err
	}
	ids, doc, hidden, argmax := f.ints("ids"), f.ints("doc"), f.floats("hidden"), f.ints("argmax")
	var row7 []float32
	if f.Has("logits_row7") {
		row7 = f.floats("logits_row7")
	}
	if err := f.close(); err != nil {
		return err
	}
	if len(doc) != len(ids) || len(argmax) != len(ids) {
		return fmt.Errorf("%s: %d ids, %d document numbers, %d argmax", forwardFile, len(ids), len(doc), len(argmax))
	}
	m, err := r.loaded()
	if err != nil {
		return err
	}
	if err := r.captures(m, ids, offsets(doc), hidden); err != nil {
		return err
	}
	return r.logits(m, ids, offsets(doc), argmax, row7)
}

func (r *run) captures(m *model.Target, ids, offsets []int32, want []float32) error {
	cfg, ok, err := r.config()
	if err != nil || !ok {
		return err
	}
	h := r.target.HiddenSize
	planes, out := r.dev.AllocHalf(len(cfg.Taps)*len(ids), h), r.dev.AllocHalf(len(ids), len(cfg.Taps)*h)
	if err := m.Forward(ids, offsets, cfg.Taps, planes); err != nil {
		return err
	}
	model.Concat(r.dev, out, planes)
	got := kernelstest.Read(r.dev, out)
	if err := r.dev.Sync(); err != nil {
		return err
	}
	if len(got) != len(want) {
		return fmt.Errorf("%s: hidden has %d elements, %d tokens of %d taps of %d have %d", forwardFile, len(want), len(ids), len(cfg.Taps), h, len(got))
	}
	for k, tap := range cfg.Taps {
		r.near(fmt.Sprintf("target.captures.layer_%d", tap), columns(got, out.Cols, k*h, h), columns(want, out.Cols, k*h, h), r.limits.captures)
	}
	return nil
}

func columns(v []float32, width, at, n int) []float32 {
	var out []float32
	for i := at; i < len(v); i += width {
		out = append(out, v[i:i+n]...)
	}
	return out
}

// logits checks the greedy choice at every token and one row of logits.
func (r *run) logits(m *model.Target, ids, offsets, argmax []int32, row7 []float32) error {
	s, err := m.NewSession(len(ids), nil)
	if err != nil {
		return err
	}
	var t tally
	for i := range len(offsets) - 1 {
		lo, hi := int(offsets[i]), int(offsets[i+1])
		if err := s.Truncate(0); err != nil {
			return err
		}
		hidden, _, err := s.Append(ids[lo:hi])
		if err != nil {
			return err
		}
		for j, id := range r.dev.Argmax(hidden, m.Head) {
			want := argmax[lo+j]
			ok := id == want || r.BF16 && r.close(m, hidden.RowRange(j, j+1), id, want)
			t.count(ok, "document %d, token %d: %d, want %d", i, j, id, want)
		}
		if last := i == len(offsets)-2; last && len(row7) > 0 && hi-lo > 7 {
			r.near("target.logits", r.logitsOf(m, hidden.RowRange(7, 8)), row7, r.limits.captures)
		}
	}
	if err := r.dev.Sync(); err != nil {
		return err
	}
	r.exact("target.argmax", t)
	return nil
}

func (r *run) logitsOf(m *model.Target, hidden kernels.Tensor) []float32 {
	z := r.dev.Alloc(1, m.Head.Rows)
	r.dev.Gemm(z, hidden, m.Head, false, true, 0)
	return kernelstest.Read(r.dev, z)
}

// close reports whether two tokens' logits are too near for bf16 to tell apart.
func (r *run) close(m *model.Target, hidden kernels.Tensor, a, b int32) bool {
	z := r.logitsOf(m, hidden)
	return z[a]-z[b] <= logitGap
}
