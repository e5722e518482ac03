package draft

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"penstock/schema"
	"penstock/schema/checkpoint"
	"penstock/stages/internal/tensorboard"
	"penstock/stages/internal/worker"
)

// metric is a line of metrics.jsonl: one a committed window, and one an evaluation.
type metric struct {
	Window       uint32    `json:"window"`
	Epoch        uint32    `json:"epoch"`
	Loss         float64   `json:"loss,omitempty"`          // 0: none, as where it is not finite or every batch is dead
	CrossEntropy float64   `json:"cross_entropy,omitempty"` // decay-weighted; the loss itself with train.loss dflash; 0: none
	LR           float64   `json:"lr,omitempty"`
	GradNorm     float64   `json:"grad_norm,omitempty"` // 0: none, as where the step is skipped
	Tokens       uint64    `json:"tokens,omitempty"`
	Slots        uint64    `json:"slots,omitempty"`
	Hits         []float32 `json:"hits,omitempty"`     // at positions 1..B-1, the share of right predictions
	Accepted     []float32 `json:"accepted,omitempty"` // likewise, the share of those that are right with all before them in their block
	Skipped      string    `json:"skipped,omitempty"`
	AcceptLength float64   `json:"accept_length,omitempty"`
	PerPosition  []float64 `json:"per_position,omitempty"` // of an evaluation: share of rounds in which slots 1..k were all accepted
	Prompts      int       `json:"prompts,omitempty"`
	Seconds      float64   `json:"seconds"` // since this process began
}

// reporter writes metrics.jsonl and keeps the board's progress, of which only the latest matters.
type reporter struct {
	w     *worker.Worker
	total int
	file  *os.File
	board *tensorboard.Writer

	mu      sync.Mutex
	accept  float64
	recent  recent
	latest  schema.Progress
	changed chan struct{}
}

func newReporter(w *worker.Worker, total int) (*reporter, error) {
	f, err := os.OpenFile(w.Run.Metrics(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open metrics: %w", err)
	}
	board, err := tensorboard.Create(w.Run.Events(), time.Now())
	if err != nil {
		f.Close()
		return nil, err
	}
	return &reporter{w: w, total: total, file: f, board: board, changed: make(chan struct{}, 1)}, nil
}

func (r *reporter) close() {
	r.file.Close()
	r.board.Close()
}

// remember takes a committed window into the means, if it has a loss.
func (r *reporter) remember(m metric) {
	if m.Loss != 0 {
		r.recall(recent{[]float64{m.Loss}, []float64{m.CrossEntropy}})
	}
}

// recall takes the last windows over from another rank.
func (r *reporter) recall(o recent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recent = r.recent.join(o)
}

// lately returns the last windows.
func (r *reporter) lately() recent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return recent{}.join(r.recent)
}

// window reports a committed window; s is the state behind it.
func (r *reporter) window(m metric, s checkpoint.State) error {
	if err := r.write(m); err != nil {
		return err
	}
	r.w.Metrics.Accepted(m.Accepted)
	r.progress(s, func(p *schema.Progress) {
		p.LR, p.Hits = m.LR, m.Hits
		if m.Loss != 0 { // else that of the window before stands
			p.Loss, p.CrossEntropy = m.Loss, m.CrossEntropy
		}
		if m.GradNorm != 0 {
			p.GradNorm = m.GradNorm
		}
	})
	return nil
}

// evaluated reports an acceptance measurement.
func (r *reporter) evaluated(m metric) error {
	r.mu.Lock()
	r.accept = m.AcceptLength
	r.mu.Unlock()
	r.w.Metrics.Evaluated(m.PerPosition)
	return r.write(m)
}

// progress replaces what the board is told next.
func (r *reporter) progress(s checkpoint.State, change func(*schema.Progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.latest
	p.Gen, p.Windows, p.Total = s.Gen, s.Window, uint32(r.total)
	p.Tokens, p.Slots, p.Dead, p.Skipped = s.Totals.Tokens, s.Totals.Slots, uint32(s.Totals.Dead), uint32(s.Totals.Skipped)
	p.AcceptLength, p.At = r.accept, time.Now().UnixNano()
	change(p)
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// run keeps the board up to date until ctx ends.
func (r *reporter) run(ctx context.Context) error {
	for {
		select {
		case <-r.changed:
			if err := r.put(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *reporter) put(ctx context.Context) error {
	r.mu.Lock()
	p := r.latest
	r.mu.Unlock()
	r.w.Metrics.Progress(p)
	return r.w.Conn.Board().Put(ctx, worker.KeyProgress, p)
}

func (r *reporter) write(m metric) error {
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("metrics of window %d: %w", m.Window, err)
	}
	_, err = r.file.Write(append(b, '\n'))
	if err = errors.Join(err, r.board.Add(time.Now(), int64(m.Window), m.scalars()...)); err != nil { // a full disk ends no training
		r.w.Log.Warn("metrics cannot be written", "window", m.Window, "err", err)
	}
	return nil
}

// scalars are the curves that TensorBoard draws.
func (m metric) scalars() []tensorboard.Scalar {
	if m.AcceptLength > 0 {
		out := []tensorboard.Scalar{{Tag: "eval/accept_length", Value: m.AcceptLength}}
		for i, p := range m.PerPosition {
			out = append(out, tensorboard.Scalar{Tag: fmt.Sprintf("eval/position_%d", i+1), Value: p})
		}
		return out
	}
	out := []tensorboard.Scalar{{Tag: "train/lr", Value: m.LR}, {Tag: "train/tokens", Value: float64(m.Tokens)}, {Tag: "train/slots", Value: float64(m.Slots)}}
	for _, s := range []tensorboard.Scalar{{Tag: "train/loss", Value: m.Loss}, {Tag: "train/cross_entropy", Value: m.CrossEntropy}, {Tag: "train/grad_norm", Value: m.GradNorm}} {
		if s.Value != 0 {
			out = append(out, s)
		}
	}
	for i, h := range m.Hits {
		out = append(out, tensorboard.Scalar{Tag: fmt.Sprintf("hits/position_%d", i+1), Value: float64(h)})
	}
	for i, a := range m.Accepted {
		out = append(out, tensorboard.Scalar{Tag: fmt.Sprintf("accepted/position_%d", i+1), Value: float64(a)})
	}
	return out
}
