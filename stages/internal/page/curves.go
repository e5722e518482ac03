package page

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

const (
	curvePoints = 400
	recentSteps = 20 // windows that shares by position are averaged over
)

// line is what the page reads of a line of metrics.jsonl.
type line struct {
	Window       uint32    `json:"window"`
	Loss         float64   `json:"loss"` // 0: none
	CrossEntropy float64   `json:"cross_entropy"`
	GradNorm     float64   `json:"grad_norm"`
	Hits         []float64 `json:"hits"`
	Accepted     []float64 `json:"accepted"`
	Skipped      string    `json:"skipped"`
	AcceptLength float64   `json:"accept_length"`
	PerPosition  []float64 `json:"per_position"`
	Seconds      float64   `json:"seconds"` // since the trainer that did it began
	Tokens       uint64    `json:"tokens"`
	Slots        uint64    `json:"slots"`
}

// history follows metrics.jsonl.
type history struct {
	path    string
	read    int64
	steps   []line // by window
	evals   []Eval
	skipped []line // not reported yet
}

// follow takes what was written since. A window that was redone replaces the former one and those behind it.
func (h *history) follow() error {
	f, err := os.Open(h.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("follow metrics: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(h.read, io.SeekStart); err != nil {
		return fmt.Errorf("follow metrics: %w", err)
	}
	for r := bufio.NewReader(f); ; {
		text, err := r.ReadBytes('\n')
		if err != nil { // the rest of the line is still to come
			return nil
		}
		h.read += int64(len(text))
		var l line
		if err := json.Unmarshal(bytes.TrimSpace(text), &l); err != nil {
			return fmt.Errorf("follow metrics: %w in %q", err, text)
		}
		h.take(l)
	}
}

func (h *history) take(l line) {
	if l.AcceptLength > 0 {
		h.evals = slices.DeleteFunc(h.evals, func(e Eval) bool { return e.Window >= l.Window })
		h.evals = append(h.evals, Eval{l.Window, l.AcceptLength, append([]float64{}, l.PerPosition...)})
		return
	}
	for len(h.steps) > 0 && h.steps[len(h.steps)-1].Window >= l.Window {
		h.steps = h.steps[:len(h.steps)-1]
	}
	h.steps = append(h.steps, l)
	if l.Skipped != "" {
		h.skipped = append(h.skipped, l)
	}
}

// curves thins the steps to points that each stand for as many; one without a loss has no part in them.
func (h *history) curves() Curves {
	c := Curves{Windows: []uint32{}, Loss: []float64{}, CrossEntropy: []float64{}, Evals: h.evals, Hits: []float64{}, Accepted: []float64{}}
	if c.Evals == nil {
		c.Evals = []Eval{}
	}
	n := len(h.steps)
	if n == 0 {
		return c
	}
	for chunk := range slices.Chunk(h.steps, (n+curvePoints-1)/curvePoints) {
		var sum, entropy, count float64
		for _, l := range chunk {
			if l.Loss != 0 {
				sum, entropy, count = sum+l.Loss, entropy+l.CrossEntropy, count+1
			}
		}
		if count > 0 {
			c.Windows = append(c.Windows, chunk[len(chunk)-1].Window+1)
			c.Loss = append(c.Loss, sum/count)
			c.CrossEntropy = append(c.CrossEntropy, entropy/count)
		}
	}
	recent := h.steps[max(0, n-recentSteps):]
	for _, l := range recent {
		c.Hits = addShares(c.Hits, l.Hits, len(recent))
		c.Accepted = addShares(c.Accepted, l.Accepted, len(recent))
	}
	last := recent[len(recent)-1]
	c.GradNorm = last.GradNorm
	if d := last.Seconds - recent[0].Seconds; len(recent) > 1 && d > 0 {
		c.StepSeconds = d / float64(len(recent)-1)
	}
	return c
}

// speed is what the latest trainer did, in tokens and slots a second.
func (h *history) speed() (tokens, slots float64) {
	n := len(h.steps)
	if n == 0 || h.steps[n-1].Seconds <= 0 {
		return 0, 0
	}
	seconds := h.steps[n-1].Seconds
	for i := n - 1; i >= 0 && (i == n-1 || h.steps[i].Seconds <= h.steps[i+1].Seconds); i-- {
		tokens, slots = tokens+float64(h.steps[i].Tokens), slots+float64(h.steps[i].Slots)
	}
	return tokens / seconds, slots / seconds
}

// addShares adds one of n lists of shares to their mean.
func addShares(mean, shares []float64, n int) []float64 {
	for i, x := range shares {
		if i == len(mean) {
			mean = append(mean, 0)
		}
		mean[i] += x / float64(n)
	}
	return mean
}
