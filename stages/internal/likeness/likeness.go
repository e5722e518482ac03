// Package likeness measures whether the target could have written the data that a drafter is to be trained on.
package likeness

import (
	"context"
	"fmt"
	"math"

	"penstock/kernels"
	"penstock/schema/store"
	"penstock/stages/internal/model"
)

const (
	fewest    = 8       // documents of a sample, if there are so many
	most      = 200_000 // tokens of a sample
	logitRows = 64      // rows of logits that stand at a time

	// Foreign is the gap, in nats a token, above which data does not look like the target's.
	Foreign = 0.3
)

// Report is the measurement over the supervised tokens of a sample, in nats a token.
type Report struct {
	Documents int     `json:"documents"`
	Tokens    int     `json:"tokens"`
	LogProb   float64 `json:"log_prob"` // mean of the target's log-probability of the label
	Expected  float64 `json:"expected"` // what that mean would be, had the target sampled each label itself: minus its entropy
	Foreign   bool    `json:"foreign"`  // LogProb is below Expected by more than Foreign
}

// Warning says what a foreign report means, and is empty for any other.
func (r Report) Warning() string {
	if !r.Foreign {
		return ""
	}
	return fmt.Sprintf("the data does not look like the target's own words: its mean log-probability is %.2f a token where the target's own would have %.2f (%d tokens of %d documents). "+
		"A drafter learns what it is shown; rewrite the answers with regen first", r.LogProb, r.Expected, r.Tokens, r.Documents)
}

// Measure runs the target on a share of a store's documents, chosen by their keys.
func Measure(ctx context.Context, dev kernels.Device, target *model.Target, s *store.Store, share float64) (Report, error) {
	var docs []int
	longest, tokens := 0, 0
	for i := range s.Len() {
		if len(docs) >= fewest && float64(s.Key(i)%10_000) >= share*10_000 || tokens >= most {
			continue
		}
		docs, longest, tokens = append(docs, i), max(longest, s.Length(i)), tokens+s.Length(i)
	}
	if len(docs) == 0 {
		return Report{}, fmt.Errorf("measure likeness: the store is empty")
	}
	session, err := target.NewSession(longest, nil)
	if err != nil {
		return Report{}, fmt.Errorf("measure likeness: %w", err)
	}
	r := Report{Documents: len(docs)}
	logits := dev.Alloc(logitRows, target.Head.Rows)
	for _, i := range docs {
		if err := ctx.Err(); err != nil {
			return Report{}, err
		}
		ids, mask := s.Doc(i)
		if err := session.Truncate(0); err != nil {
			return Report{}, err
		}
		hidden, _, err := session.Append(ids)
		if err != nil {
			return Report{}, fmt.Errorf("measure likeness: document %d: %w", i, err)
		}
		for lo := 0; lo < len(ids); lo += logitRows {
			hi := min(lo+logitRows, len(ids))
			z := logits.RowRange(0, hi-lo)
			dev.Gemm(z, hidden.RowRange(lo, hi), target.Head, false, true, 0)
			host := make([]float32, z.Len())
			dev.Download(host, z)
			if err := dev.Sync(); err != nil {
				return Report{}, fmt.Errorf("measure likeness: %w", err)
			}
			for t := lo; t < hi && t+1 < len(ids); t++ {
				if mask.At(t + 1) {
					p, e := judge(host[(t-lo)*z.Cols:(t-lo+1)*z.Cols], ids[t+1])
					r.LogProb, r.Expected, r.Tokens = r.LogProb+p, r.Expected+e, r.Tokens+1
				}
			}
		}
	}
	if r.Tokens == 0 {
		return Report{}, fmt.Errorf("measure likeness: no token of %d documents is supervised", r.Documents)
	}
	r.LogProb /= float64(r.Tokens)
	r.Expected /= float64(r.Tokens)
	r.Foreign = r.Expected-r.LogProb > Foreign
	return r, nil
}

// judge returns the log-probability of a label under a row of logits, and minus the row's entropy.
func judge(z []float32, label int32) (logProb, expected float64) {
	top := math.Inf(-1)
	for _, v := range z {
		top = max(top, float64(v))
	}
	var sum, weighted float64
	for _, v := range z {
		d := float64(v) - top
		e := math.Exp(d)
		sum, weighted = sum+e, weighted+e*d
	}
	log := math.Log(sum)
	return float64(z[label]) - top - log, weighted/sum - log
}
