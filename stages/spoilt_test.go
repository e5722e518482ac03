package stages_test

import (
	"sync"
	"testing"

	"penstock/kernels"
	"penstock/schema"
	"penstock/stages/internal/worker"
	"penstock/stages/stagestest"
)

// What was computed on features that changed meanwhile is in no sum, though it was let be summed and its batch comes again to the
// same rank.
func TestASumThatBeganWithSpoiltFeatures(t *testing.T) {
	config := stagestest.Config(t, 120, func(c *schema.Config) { small(c); c.Train.Epochs = 20; c.Train.MaxSteps = 10; c.Broker.AckWait = "1s" })
	var spoilt sums
	p, ex, want := troubled(t, config, func(dev collective) kernels.Device {
		return &spoiler{collective: dev, spoils: spoilt.first}
	})
	if err := p.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d batches spoilt, %+v", len(spoilt.seen), ex.State())
	if len(spoilt.seen) == 0 {
		t.Error("nothing was spoilt")
	}
	same(t, losses(t, p), want)
	whole(t, p)
	left(t, ex)
}

// sums are checksums of features.
type sums struct {
	mu   sync.Mutex
	seen map[uint64]bool
}

// first says whether features are asked for for the first time.
func (s *sums) first(sum uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[sum] {
		return false
	}
	if s.seen == nil {
		s.seen = map[uint64]bool{}
	}
	s.seen[sum] = true
	return true
}

// spoiler is a device under which features change in a step whose gradient is let be summed, which is found out at the step's end.
type spoiler struct {
	collective
	spoils func(sum uint64) bool
	sum    uint64 // of the step's features
	syncs  int    // in the step
	spoilt bool
}

func (s *spoiler) CheckFeatures(x kernels.Tensor) kernels.FeatureCheck {
	seen := s.collective.CheckFeatures(x)
	if x.Cols != 4096 { // not of a gradient
		s.sum, s.syncs, s.spoilt = seen.Checksum, 0, false
	}
	return seen
}

func (s *spoiler) Copy(dst, src kernels.Tensor) {
	s.collective.Copy(dst, src)
	if s.syncs == 1 && (s.spoilt || s.spoils(s.sum)) {
		s.spoilt = true
		s.collective.Add(dst, src)
		s.collective.Add(dst, src)
	}
}

func (s *spoiler) Sync() error {
	if s.syncs++; s.spoilt && s.syncs == 2 {
		return worker.ErrGone
	}
	return s.collective.Sync()
}
