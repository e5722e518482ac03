package scenario

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"penstock/broker/policy"
	"penstock/schema"
)

// checker collects what is wrong.
type checker []error

func (c *checker) ok(good bool, format string, args ...any) {
	if !good {
		*c = append(*c, fmt.Errorf(format, args...))
	}
}

// time accepts a finite number from 0 on.
func (c *checker) time(key string, v float64) {
	c.ok(v >= 0 && v <= math.MaxFloat32, "%s is %g, want a number from 0 on", key, v)
}

func (s *Scenario) check() error {
	var c checker
	for _, v := range []struct {
		key           string
		value, lo, hi int
	}{
		{"hosts", s.Hosts, 1, 1 << 16}, {"gpus", s.GPUs, 0, 1 << 20}, {"batch", s.Batch, 1, 1 << 30}, {"epochs", s.Epochs, 1, 1 << 20},
		{"window.batches", s.Window.Batches, 1, schema.MaxWindowBatches}, {"window.lookahead", s.Window.Lookahead, 1, 64},
		{"anchors", s.Anchors, 1, 1 << 20}, {"block", s.Block, 1, 256}, {"row", s.Row, 1, 1 << 30}, {"draft.gpus", s.Draft.GPUs, 1, 1 << 10},
		{"target.instances", s.Target.Instances, 1, 1 << 16}, {"pack.instances", s.Pack.Instances, 1, 1 << 16},
		{"draft.instances", s.Draft.Instances, 1, 1 << 16}, {"staged.queue", s.Staged.Queue, 0, 1 << 20},
	} {
		c.ok(v.lo <= v.value && v.value <= v.hi, "%s is %d, want %d..%d", v.key, v.value, v.lo, v.hi)
	}
	for _, v := range []struct {
		key string
		Cost
	}{{"target.cost", s.Target.Cost}, {"pack.cost", s.Pack.Cost}, {"draft.cost", s.Draft.Cost}} {
		c.time(v.key+".token", v.Token)
		c.time(v.key+".square", v.Square)
		c.time(v.key+".slot", v.Slot)
		c.time(v.key+".batch", v.Batch)
		c.ok(v.Batch == 0 || v.Token+v.Square+v.Slot > 0, "%s.batch needs token, square or slot to say what the time is spread by", v.key)
		c.ok(v.Noise >= 0 && v.Noise < 1, "%s.noise is %g, want a share in 0..1, 1 excluded", v.key, v.Noise)
	}
	c.ok(s.Pack.Cost.Noise == 0, "pack.cost.noise is %g: copies have none", s.Pack.Cost.Noise)
	c.time("pack.copy", s.Pack.Copy)
	c.time("pack.network", s.Pack.Network)
	c.time("draft.optimizer", s.Draft.Optimizer)
	c.time("handoff", s.Handoff)
	c.time("staged.pack", s.Staged.Pack)
	c.time("staged.fetch", s.Staged.Fetch[0])
	c.ok(s.Staged.Fetch[1] >= s.Staged.Fetch[0] && s.Staged.Fetch[1] < math.MaxFloat32, "staged.fetch is %v, want two times, the longer one second", s.Staged.Fetch)
	c.ok(s.Look > 0, "look is %g, want a time above 0", s.Look)
	s.checkEvents(&c)
	c = append(c, policy.Sufficient("of each target", s.Target.Slots), policy.Sufficient("of each packer", s.Pack.Slots),
		policy.CoverRanks(s.Window.Batches, s.Draft.Instances), s.Lengths.check())
	return errors.Join(c...)
}

func (s *Scenario) checkEvents(c *checker) {
	for i, v := range s.Slow {
		c.ok(s.has(v.Instance, "target", "draft"), "slow[%d]: there is no %q", i, v.Instance)
		c.ok(v.Factor > 0 && v.Factor < math.MaxFloat32, "slow[%d]: factor is %g, want a number above 0", i, v.Factor)
		c.time(fmt.Sprintf("slow[%d].from", i), v.From)
		c.time(fmt.Sprintf("slow[%d].to", i), v.To)
	}
	for i, v := range s.Crashes {
		c.ok(s.has(v.Instance, "target", "pack", "draft"), "crashes[%d]: there is no %q", i, v.Instance)
		c.ok(!strings.HasPrefix(v.Instance, "draft") || s.Draft.Instances > 1,
			"crashes[%d]: the only rank opens a new generation from its checkpoint when it dies; give draft.instances 2 or more", i)
		c.time(fmt.Sprintf("crashes[%d].at", i), v.At)
		c.time(fmt.Sprintf("crashes[%d].down", i), v.Down)
	}
}

// has reports whether a name such as target-2 is that of an instance of one of the stages.
func (s *Scenario) has(name string, stages ...string) bool {
	stage, number, _ := strings.Cut(name, "-")
	n, err := strconv.Atoi(number)
	count := map[string]int{"target": s.Target.Instances, "pack": s.Pack.Instances, "draft": s.Draft.Instances}[stage]
	return err == nil && slices.Contains(stages, stage) && 1 <= n && n <= count
}
