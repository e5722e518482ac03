package stages_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"penstock/broker"
	"penstock/kernels"
	"penstock/schema"
	"penstock/schema/hf"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/doctor"
	"penstock/stages/internal/worker"
	"penstock/stages/stagestest"
)

// allocated counts bytes by instance: what it allocates on its device, what of that is scratch memory of the ops, and what it
// shares with other processes.
type allocated struct {
	mu                    sync.Mutex
	device, arena, shared map[string]int64
}

// counting is a device that counts what it allocates.
type counting struct {
	kernels.Device
	a    *allocated
	name string
}

func (c counting) Alloc(rows, cols int) kernels.Tensor {
	c.count(rows, cols, kernels.Float32)
	return c.Device.Alloc(rows, cols)
}

func (c counting) AllocHalf(rows, cols int) kernels.Tensor {
	c.count(rows, cols, c.Half())
	return c.Device.AllocHalf(rows, cols)
}

func (c counting) Free(t kernels.Tensor) {
	c.count(-t.Rows, t.Cols, t.Type)
	c.Device.Free(t)
}

func (c counting) count(rows, cols int, t kernels.Type) {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	of := c.a.device
	if cols == 1 { // an arena's
		of = c.a.arena
	}
	of[c.name] += int64(t.Bytes()) * int64(rows) * int64(cols)
}

// counted has a run's devices and slabs counted.
func counted(p *stagestest.Pipeline) (*allocated, func(context.Context) error) {
	a := &allocated{device: map[string]int64{}, arena: map[string]int64{}, shared: map[string]int64{}}
	p.Open = func(instance, device string) (kernels.Device, error) {
		dev, err := backend.Open(device)
		return counting{dev, a, instance}, err
	}
	return a, func(ctx context.Context) error {
		conn, err := p.Dial(ctx, broker.RoleObserver)
		if err != nil {
			return err
		}
		defer conn.Close()
		err = conn.Board().Watch(ctx, "pool.*", func(h broker.Hint) error {
			if r, ok := h.Record.(schema.PoolInfo); ok {
				a.mu.Lock()
				a.shared[r.Pool] = int64(r.Slots) * int64(r.SlotBytes)
				a.mu.Unlock()
			}
			return nil
		})
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
}

// TestMemoryPlan holds what doctor plans against what the processes of a run allocate.
func TestMemoryPlan(t *testing.T) {
	for _, c := range []struct {
		name          string
		ranks         int
		deterministic bool
	}{{"one rank", 1, false}, {"two ranks", 2, false}, {"deterministic", 1, true}, {"deterministic, two ranks", 2, true}} {
		t.Run(c.name, func(t *testing.T) {
			config := stagestest.Config(t, 24, func(s *schema.Config) {
				s.Draft.Ranks, s.Deterministic, s.Train.MaxSteps = c.ranks, c.deterministic, 2
			})
			target, err := hf.OpenTarget(config.Target.Dir)
			if err != nil {
				t.Fatal(err)
			}
			defer target.Close()
			p := stagestest.New(t, config)
			got, watch := counted(p)
			if err := p.Run(t.Context(), watch); err != nil {
				t.Fatal(err)
			}
			run, _, err := worker.Prepare(t.Context(), config, p.Dir)
			if err != nil {
				t.Fatal(err)
			}
			defer run.Store.Close()
			shapes := run.Shapes()
			device, arena, shared := map[string]int64{}, map[string]int64{}, map[string]int64{}
			for _, i := range doctor.Plan(config, target, shapes) {
				of := device
				switch {
				case i.Purpose == "process":
					continue
				case i.Purpose == "activations":
					of = arena
				case strings.Contains(i.Purpose, "slots"), strings.HasPrefix(i.Purpose, "exchange"):
					of = shared
				}
				for n := range i.Instances {
					of[fmt.Sprintf("%s-%d", i.Process, n+1)] += i.Bytes
				}
			}
			near(t, "device", got.device, device)
			near(t, "shared", got.shared, shared)
			for name, bytes := range got.arena {
				if most := arena[name] + 8<<20; bytes > most { // what an arena leaves unused of its smallest chunks
					t.Errorf("%s: %d bytes of activations, planned %d", name, bytes, most)
				}
			}
		})
	}
}

// near holds bytes by instance against a plan: never more than planned, and not much less.
func near(t *testing.T, what string, got, planned map[string]int64) {
	t.Helper()
	if g, p := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(planned)); !slices.Equal(g, p) {
		t.Errorf("%s: allocated by %v, planned for %v", what, g, p)
	}
	for name, n := range got {
		t.Logf("%s %s: %d bytes, planned %d", what, name, n, planned[name])
		if share := float64(n) / float64(planned[name]); share > 1.001 || share < 0.98 {
			t.Errorf("%s %s: %d bytes, planned %d", what, name, n, planned[name])
		}
	}
}
