package stages_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"penstock/kernels"
	"penstock/kernels/kernelstest"
	"penstock/schema"
	"penstock/stages/internal/backend"
	"penstock/stages/stagestest"
)

// exchanging has the drafters of a pipeline use devices that add up through an exchange.
func exchanging(p *stagestest.Pipeline) *kernelstest.Exchange {
	ex := kernelstest.NewExchange()
	p.Open = func(instance, device string) (kernels.Device, error) {
		dev, err := backend.Open(device)
		if err != nil || !strings.HasPrefix(instance, "draft-") {
			return dev, err
		}
		return ex.Device(dev, kernels.Peer{Library: "exchange 1", Processor: instance}), nil
	}
	return ex
}

// left holds that nobody is in a communicator any more, or has done what nobody may, and that there were some.
func left(t *testing.T, ex *kernelstest.Exchange) {
	t.Helper()
	s := ex.State()
	t.Logf("%+v", s)
	if s.Joined == 0 || s.Open != 0 || len(s.Wrong) > 0 {
		t.Errorf("communicators: %+v", s)
	}
}

// same holds that the losses of windows are those of one rank.
func same(t *testing.T, got, want []float64) {
	t.Helper()
	for i := range want {
		if i >= len(got) || math.Abs(got[i]-want[i]) > 1e-4*want[i] {
			t.Fatalf("window %d: losses %v, of one rank %v", i, got, want)
		}
	}
}

func TestRanksWhoseDevicesAddUp(t *testing.T) {
	config := stagestest.Config(t, 120, func(c *schema.Config) { small(c); c.Train.Epochs = 20; c.Train.MaxSteps = 30 })
	p := stagestest.New(t, config)
	var alone group
	if err := p.Run(t.Context(), alone.watch(p)); err != nil {
		t.Fatal(err)
	}
	want := losses(t, p)
	for _, c := range []struct {
		name   string
		ranks  int
		reduce string
		broken bool
	}{{"two", 2, "auto", false}, {"three", 3, "auto", false}, {"two, at a window's end", 2, "end", false},
		{"two, whose library fails now and then", 2, "auto", true}, {"two, through the host", 2, "host", false}} {
		t.Run(c.name, func(t *testing.T) {
			config.Draft.Ranks, config.Draft.Reduce = c.ranks, c.reduce
			p := stagestest.New(t, config)
			ex := exchanging(p)
			var sums atomic.Int64
			ex.Fail(func(_ kernels.Peer, step string) error {
				if c.broken && step == "sum" && sums.Add(1)%9 == 0 {
					return errors.New("a fault")
				}
				return nil
			})
			var g group
			if err := p.Run(t.Context(), g.watch(p)); err != nil {
				t.Fatal(err)
			}
			same(t, losses(t, p), want)
			whole(t, p)
			if c.reduce != "host" {
				left(t, ex)
			} else if s := ex.State(); s.Invited != 0 {
				t.Errorf("communicators: %+v", s)
			}
			s := ex.State()
			if !c.broken && (c.reduce == "auto") != (s.Sums > len(want)) {
				t.Errorf("%d windows, %d sums on the devices", len(want), s.Sums)
			}
			if s.Elements > len(want)*s.Longest {
				t.Errorf("%d windows of %d elements, %d summed: some in vain", len(want), s.Longest, s.Elements)
			}
			if c.broken && sums.Load() < 9 {
				t.Error("nothing has failed")
			}
		})
	}
}

// troubled is a pipeline of two ranks on devices of an exchange that something is put before, and the losses of one rank without.
func troubled(t *testing.T, config schema.Config, put func(collective) kernels.Device) (*stagestest.Pipeline, *kernelstest.Exchange, []float64) {
	t.Helper()
	p := stagestest.New(t, config)
	if err := p.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	want := losses(t, p)
	config.Draft.Ranks = 2
	p = stagestest.New(t, config)
	ex := exchanging(p)
	open := p.Open
	p.Open = func(instance, device string) (kernels.Device, error) {
		dev, err := open(instance, device)
		if err != nil || !strings.HasPrefix(instance, "draft-") {
			return dev, err
		}
		return put(dev.(collective)), nil
	}
	return p, ex, want
}

// A rank that finds a batch's features bad gives it up after another has let its part be summed: whoever gets it in the end, the sum is
// that of one rank.
func TestASumThatBeganWithoutABatch(t *testing.T) {
	config := stagestest.Config(t, 120, func(c *schema.Config) { small(c); c.Train.Epochs = 20; c.Train.MaxSteps = 20; c.Train.MaxRejected = 1 })
	var doubted sums
	p, ex, want := troubled(t, config, func(dev collective) kernels.Device {
		return &doubter{dev, func(x kernels.Tensor, sum uint64) bool {
			return x.Cols != 4096 && sum%3 == 0 && doubted.first(sum) // not of a gradient
		}}
	})
	var r records
	if err := p.Run(t.Context(), func(ctx context.Context) error { return r.follow(ctx, p) }); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d suspects, %d dead, %+v", len(r.suspects), len(r.dead), ex.State())
	if len(r.suspects) == 0 || len(r.dead) > 0 {
		t.Errorf("suspects %+v, dead %+v; want some, and none", r.suspects, r.dead)
	}
	same(t, losses(t, p), want)
	whole(t, p)
	left(t, ex)
}

// Whenever a rank dies, the communicator dies with it, and those that are left form another.
func TestADeadRankEndsTheCommunicator(t *testing.T) {
	for _, d := range deaths {
		t.Run(d.name, func(t *testing.T) {
			config := stagestest.Config(t, 120, func(c *schema.Config) { small(c); c.Train.Epochs, c.Draft.Ranks = 2, 3; c.Broker.AckWait = "60s" })
			p := slain(t, config, d.rank, d.part, d.nth)
			ex := exchanging(p)
			var g group
			if err := p.Run(t.Context(), g.watch(p)); err != nil {
				t.Fatal(err)
			}
			whole(t, p)
			left(t, ex)
			if s := ex.State(); s.Invited < 2 {
				t.Errorf("after a death: %+v", s)
			}
			t.Logf("batches by rank %v, %d rank epochs", g.added, len(g.epochs))
		})
	}
}

type collective interface {
	kernels.Device
	kernels.Collective
}

// doubter is a device that finds features bad now and then.
type doubter struct {
	collective
	doubt func(x kernels.Tensor, sum uint64) bool
}

func (d *doubter) CheckFeatures(x kernels.Tensor) kernels.FeatureCheck {
	seen := d.collective.CheckFeatures(x)
	if d.doubt(x, seen.Checksum) {
		seen.Checksum++
	}
	return seen
}
