package stages_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"penstock/broker"
	"penstock/kernels"
	"penstock/schema"
	"penstock/stages/internal/backend"
	"penstock/stages/stagestest"
)

// bad is a device that spoils what a target has captured, at the moment when the target takes its sum.
type bad struct {
	kernels.Device
	spoil func(x kernels.Tensor, check func(kernels.Tensor) kernels.FeatureCheck) kernels.FeatureCheck
}

func (b *bad) CheckFeatures(x kernels.Tensor) kernels.FeatureCheck {
	return b.spoil(x, b.Device.CheckFeatures)
}

type check = func(kernels.Tensor) kernels.FeatureCheck

var poisons = []struct {
	name, reason string
	spoil        func(x kernels.Tensor, sum check) kernels.FeatureCheck
}{
	{"not a number", "not finite", func(x kernels.Tensor, sum check) kernels.FeatureCheck {
		x.F32[len(x.F32)/2] = float32(math.NaN())
		return sum(x)
	}},
	{"infinite", "not finite", func(x kernels.Tensor, sum check) kernels.FeatureCheck {
		x.F32[0] = float32(math.Inf(-1))
		return sum(x)
	}},
	{"all zero", "all zero", func(x kernels.Tensor, sum check) kernels.FeatureCheck {
		clear(x.F32)
		return sum(x)
	}},
	{"constant", "every row is the same", func(x kernels.Tensor, sum check) kernels.FeatureCheck {
		row := x.F32[:x.Cols]
		for at := x.Cols; at < len(x.F32); at += x.Cols {
			copy(x.F32[at:], row)
		}
		return sum(x)
	}},
	{"short", "checksum", func(x kernels.Tensor, sum check) kernels.FeatureCheck {
		seen := sum(x)
		clear(x.F32[len(x.F32)/2:])
		return seen
	}},
	{"wrong checksum", "checksum", func(x kernels.Tensor, sum check) kernels.FeatureCheck {
		seen := sum(x)
		seen.Checksum ^= 1 << 17
		return seen
	}},
}

// poisoned is a run of which one target, or the packer, spoils the features that spoil is true for: of their rows, the nth
// time so many are seen.
func poisoned(t *testing.T, config schema.Config, who string, spoil func(rows, nth int) bool, how func(kernels.Tensor, check) kernels.FeatureCheck) *stagestest.Pipeline {
	t.Helper()
	p := stagestest.New(t, config)
	var mu sync.Mutex
	seen := map[int]int{}
	p.Open = func(instance, device string) (kernels.Device, error) {
		dev, err := backend.Open(device)
		if err != nil || instance != who {
			return dev, err
		}
		return &bad{dev, func(x kernels.Tensor, sum check) kernels.FeatureCheck {
			mu.Lock()
			seen[x.Rows]++
			nth := seen[x.Rows]
			mu.Unlock()
			if spoil(x.Rows, nth) {
				return how(x, sum)
			}
			return sum(x)
		}}, nil
	}
	return p
}

// records collects what the ledger says of bad batches while a run goes on.
type records struct {
	suspects []schema.Suspect
	dead     []schema.Dead
	progress schema.Progress
}

func (r *records) follow(ctx context.Context, p *stagestest.Pipeline) error {
	conn, err := p.Dial(ctx, broker.RoleObserver)
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		_ = conn.Board().Watch(ctx, "progress", func(h broker.Hint) error {
			r.progress, _ = h.Record.(schema.Progress)
			return nil
		})
	}()
	return conn.Ledger().Follow(ctx, broker.LedgerAll, 0, func(e broker.Entry) error {
		switch rec := e.Record.(type) {
		case schema.Suspect:
			r.suspects = append(r.suspects, rec)
		case schema.Dead:
			r.dead = append(r.dead, rec)
		}
		return nil
	})
}

func TestPoison(t *testing.T) {
	config := stagestest.Config(t, 24, func(c *schema.Config) {
		c.Deterministic = true
		c.Target.Instances = 1
		c.Broker.AckWait = "1s"
		c.Data.Store = t.TempDir()
	})
	calm := stagestest.New(t, config)
	if err := calm.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	want, all := weights(t, calm), count(t, calm)
	victim, docs := unique(t, calm)
	rows := len(config.Target.Taps) * victim
	for _, c := range poisons {
		t.Run("once "+c.name, func(t *testing.T) {
			p := poisoned(t, config, "target-1", func(n, nth int) bool { return n == rows && nth == 1 }, c.spoil)
			var r records
			if err := p.Run(t.Context(), func(ctx context.Context) error { return r.follow(ctx, p) }); err != nil {
				t.Fatal(err)
			}
			if len(r.suspects) != 1 || !strings.Contains(r.suspects[0].Reason, c.reason) || r.suspects[0].From != "target-1" || len(r.dead) != 0 {
				t.Errorf("suspects %+v, dead %+v; want one suspect of target-1, %q", r.suspects, r.dead, c.reason)
			}
			if got := count(t, p); got != all {
				t.Errorf("ledger %+v, undisturbed %+v", got, all)
			}
			if !bytes.Equal(weights(t, p), want) {
				t.Error("other weights than undisturbed")
			}
		})
		t.Run("always "+c.name, func(t *testing.T) {
			p := poisoned(t, config, "target-1", func(n, nth int) bool { return n == rows }, c.spoil)
			var r records
			if err := p.Run(t.Context(), func(ctx context.Context) error { return r.follow(ctx, p) }); err != nil {
				t.Fatal(err)
			}
			if len(r.suspects) != 1 || len(r.dead) != 1 || !strings.Contains(r.dead[0].Reason, c.reason) {
				t.Errorf("suspects %+v, dead %+v; want one each, %q", r.suspects, r.dead, c.reason)
			}
			got := count(t, p)
			if got.Rejected != docs || got.Documents != all.Documents-docs || got.Missing != 0 || got.Duplicates != 0 || got.Windows != got.Planned {
				t.Errorf("ledger %+v, want %d documents rejected of %d", got, docs, all.Documents)
			}
			if r.progress.Dead != 1 {
				t.Errorf("progress shows %d rejected batches", r.progress.Dead)
			}
		})
	}
}

// unique returns the tokens and documents of a batch that is the only one with so many tokens.
func unique(t *testing.T, p *stagestest.Pipeline) (tokens, docs int) {
	t.Helper()
	run := openPlan(t, p)
	defer run.Store.Close()
	n := map[int]int{}
	for i := range run.Plan.Batches() {
		n[run.Plan.Batch(i).Tokens]++
	}
	for i := range run.Plan.Batches() {
		if b := run.Plan.Batch(i); n[b.Tokens] == 1 {
			return b.Tokens, len(b.Docs)
		}
	}
	t.Fatal("no batch of its own size")
	return 0, 0
}

// TestTooManyRejects ends a run whose features are all bad, and says why.
func TestTooManyRejects(t *testing.T) {
	config := stagestest.Config(t, 60, func(c *schema.Config) {
		c.Target.Instances, c.Broker.AckWait, c.Train.MaxRejected = 1, "1s", 0.02
	})
	p := poisoned(t, config, "target-1", func(int, int) bool { return true }, poisons[0].spoil)
	err := p.Run(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "train.max_rejected 0.02: the last one because not finite") || !strings.Contains(err.Error(), "3 of 3 batches") {
		t.Errorf("the run ends with %v", err)
	}
}

// broken is a device that fails at the first test of features.
type broken struct {
	kernels.Device
	err error
}

var errBroken = errors.New("the device is broken")

func (b *broken) CheckFeatures(kernels.Tensor) kernels.FeatureCheck {
	b.err = errBroken
	return kernels.FeatureCheck{}
}

func (b *broken) Sync() error { return b.err }

// openAs opens devices, and has wrap make another of that of one instance.
func openAs(who string, wrap func(kernels.Device) kernels.Device) func(instance, device string) (kernels.Device, error) {
	return func(instance, device string) (kernels.Device, error) {
		dev, err := backend.Open(device)
		if err != nil || instance != who {
			return dev, err
		}
		return wrap(dev), nil
	}
}

// TestBrokenDevice has the device of a stage fail as it tests features: the stage fails, and the features are not to blame.
func TestBrokenDevice(t *testing.T) {
	for _, who := range []string{"target-1", "pack-1", "draft-1"} {
		t.Run(who, func(t *testing.T) {
			p := stagestest.New(t, stagestest.Config(t, 24, func(c *schema.Config) { c.Target.Instances = 1 }))
			p.Open = openAs(who, func(dev kernels.Device) kernels.Device { return &broken{Device: dev} })
			if err := p.Run(t.Context(), nil); !errors.Is(err, errBroken) {
				t.Errorf("the run ends with %v", err)
			}
		})
	}
}

// TestRecomputedElsewhere has one of two targets spoil whatever it computes: the other one computes it again, and nothing is
// rejected.
func TestRecomputedElsewhere(t *testing.T) {
	config := stagestest.Config(t, 60, func(c *schema.Config) {
		c.Deterministic = true
		c.Broker.AckWait = "1m"
		c.Data.Store = t.TempDir()
	})
	calm := stagestest.New(t, config)
	if err := calm.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	p := poisoned(t, config, "target-1", func(int, int) bool { return true }, poisons[0].spoil)
	var r records
	if err := p.Run(t.Context(), func(ctx context.Context) error { return r.follow(ctx, p) }); err != nil {
		t.Fatal(err)
	}
	if len(r.suspects) == 0 || len(r.dead) != 0 {
		t.Errorf("suspects %+v, dead %+v; want some suspects and none dead", r.suspects, r.dead)
	}
	for _, s := range r.suspects {
		if s.From != "target-1" {
			t.Errorf("a suspect of %s: %+v", s.From, s)
		}
	}
	if got, all := count(t, p), count(t, calm); got != all {
		t.Errorf("ledger %+v, undisturbed %+v", got, all)
	}
	if !bytes.Equal(weights(t, p), weights(t, calm)) {
		t.Error("other weights than undisturbed")
	}
}
