package stages_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/kernels"
	"penstock/schema"
	"penstock/schema/checkpoint"
	"penstock/stages/internal/backend"
	ranks "penstock/stages/internal/group"
	"penstock/stages/stagestest"
)

// group watches who does what on the ledger.
type group struct {
	mu     sync.Mutex
	added  map[string]int // batches, by rank
	epochs []schema.RankEpoch
}

func (g *group) watch(p *stagestest.Pipeline) func(context.Context) error {
	g.added = map[string]int{}
	return func(ctx context.Context) error {
		conn, err := p.Dial(ctx, broker.RoleObserver)
		if err != nil {
			return err
		}
		defer conn.Close()
		return conn.Ledger().Follow(ctx, broker.LedgerAll, 0, func(e broker.Entry) error {
			g.mu.Lock()
			defer g.mu.Unlock()
			switch r := e.Record.(type) {
			case schema.Added:
				g.added[r.Rank]++
			case schema.RankEpoch:
				g.epochs = append(g.epochs, r)
			}
			return nil
		})
	}
}

// most is the largest number of members that there were.
func (g *group) most() int {
	n := 0
	for _, e := range g.epochs {
		n = max(n, len(e.Members))
	}
	return n
}

type loss struct {
	Window uint32
	Loss   float64
}

// losses reads the committed windows of metrics.jsonl.
func losses(t *testing.T, p *stagestest.Pipeline) []float64 {
	t.Helper()
	b, err := os.ReadFile(p.Dir.Metrics())
	if err != nil {
		t.Fatal(err)
	}
	var out []float64
	for sc := bufio.NewScanner(bytes.NewReader(b)); sc.Scan(); {
		var l loss
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if int(l.Window) != len(out) {
			t.Fatalf("window %d after %d windows", l.Window, len(out))
		}
		out = append(out, l.Loss)
	}
	return out
}

// moments returns AdamW's first moment of the newest checkpoint: after one step a multiple of the gradient.
func moments(t *testing.T, p *stagestest.Pipeline) []float32 {
	t.Helper()
	c, _, err := checkpoint.Latest(p.Dir.Checkpoints())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var all []float32
	for _, s := range c.Drafter.Shapes() {
		v, err := c.M.Float32(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v...)
	}
	return all
}

// apart is the largest difference of two vectors, as a part of the largest element.
func apart(a, b []float32) float64 {
	diff, size := 0.0, 0.0
	for i := range a {
		diff = max(diff, math.Abs(float64(a[i])-float64(b[i])))
		size = max(size, math.Abs(float64(a[i])))
	}
	return diff / size
}

// small makes batches small and windows of four of them.
func small(c *schema.Config) {
	c.Data.MaxLength, c.Batch.Tokens, c.Train.Anchors = 192, 192, 2
	c.Window.Batches = 4
	c.Pack.Slots = 6
}

// together is a run of one window in which every rank has a part. One that starts late has none: then it is run again.
func together(t *testing.T, config schema.Config) (*stagestest.Pipeline, *group) {
	t.Helper()
	for range 10 {
		p, g := stagestest.New(t, config), &group{}
		if err := p.Run(t.Context(), g.watch(p)); err != nil {
			t.Fatalf("%d ranks: %v", config.Draft.Ranks, err)
		}
		if len(g.added) == config.Draft.Ranks {
			return p, g
		}
		t.Logf("batches by rank %v: again", g.added)
	}
	t.Fatalf("%d ranks never share a window", config.Draft.Ranks)
	return nil, nil
}

func TestOneWindowsGradientIsTheSameOnAnyNumberOfRanks(t *testing.T) {
	config := stagestest.Config(t, 60, func(c *schema.Config) { small(c); c.Train.MaxSteps, c.Window.Batches = 1, 6 })
	var first []float32
	for ranks := 1; ranks <= 3; ranks++ {
		config.Draft.Ranks = ranks
		p, g := together(t, config)
		m := moments(t, p)
		if first == nil {
			first = m
		}
		d := apart(first, m)
		t.Logf("%d ranks, batches by rank %v: gradients differ by %.2g", ranks, g.added, d)
		if d > 1e-5 {
			t.Errorf("%d ranks: the gradient differs by %g", ranks, d)
		}
	}
}

func TestLossesAreTheSameOnAnyNumberOfRanks(t *testing.T) {
	config := stagestest.Config(t, 120, func(c *schema.Config) { small(c); c.Train.Epochs = 20; c.Train.MaxSteps = 50 })
	var first []float64
	for ranks := 1; ranks <= 3; ranks++ {
		config.Draft.Ranks = ranks
		p := stagestest.New(t, config)
		var g group
		if err := p.Run(t.Context(), g.watch(p)); err != nil {
			t.Fatalf("%d ranks: %v", ranks, err)
		}
		l := losses(t, p)
		if first == nil {
			first = l
		}
		if len(l) != 50 || g.most() != ranks && ranks > 1 {
			t.Errorf("%d windows, at most %d members; want 50 and %d", len(l), g.most(), ranks)
		}
		worst := 0.0
		for i := range min(len(l), len(first)) {
			worst = max(worst, math.Abs(l[i]-first[i])/first[i])
		}
		t.Logf("%d ranks, batches by rank %v: losses differ by %.2g", ranks, g.added, worst)
		if worst > 1e-4 {
			t.Errorf("%d ranks: losses differ by %g", ranks, worst)
		}
		whole(t, p)
	}
}

// slain is a pipeline whose rank is cut off when it does the nth thing on subjects with a part; no name is any rank.
func slain(t *testing.T, c schema.Config, rank, part string, nth int) *stagestest.Pipeline {
	p := stagestest.New(t, c)
	var mu sync.Mutex
	p.Fault = func(instance string, op broker.Op, subject string) broker.Outcome {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(instance, "draft-"+rank) && op == broker.OpPublish && strings.Contains(subject, part) {
			if nth--; nth == 0 {
				return broker.Cut
			}
		}
		return broker.Pass
	}
	t.Cleanup(func() {
		if nth > 0 {
			t.Errorf("draft-%s lived: %d operations on %s were missing", rank, nth, part)
		}
	})
	return p
}

func TestDeterministicRanksAreBitIdentical(t *testing.T) {
	config := stagestest.Config(t, 90, func(c *schema.Config) { small(c); c.Deterministic = true })
	var first []byte
	for _, c := range []struct {
		ranks int
		dead  string
	}{{1, ""}, {2, ""}, {3, ""}, {3, "1"}, {3, "2"}, {2, "2"}} {
		config.Draft.Ranks = c.ranks
		p := stagestest.New(t, config)
		if c.dead != "" {
			p = slain(t, config, c.dead, "ps.ledger.1.", 12)
		}
		var g group
		if err := p.Run(t.Context(), g.watch(p)); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		got := weights(t, p)
		if first == nil {
			first = got
		}
		t.Logf("%+v: batches by rank %v, %d rank epochs", c, g.added, len(g.epochs))
		if !bytes.Equal(got, first) {
			t.Errorf("%+v: other weights", c)
		}
		whole(t, p)
	}
}

// whole holds that every planned batch was trained once, by the ledger file and by the metrics.
func whole(t *testing.T, p *stagestest.Pipeline) {
	t.Helper()
	r := count(t, p)
	if r.Documents == 0 || r.Missing != 0 || r.Duplicates != 0 || r.Rejected != 0 || r.Mismatched != 0 || r.Windows != r.Planned {
		t.Errorf("ledger: %+v", r)
	}
	if n := len(losses(t, p)); n != r.Planned {
		t.Errorf("%d windows in the metrics, %d planned", n, r.Planned)
	}
}

// death is the nth publication of a rank on a subject with a part in it, behind which the rank is cut off.
type death struct {
	name, rank, part string
	nth              int
}

// deaths are those at which a window's sum is under way or near.
var deaths = []death{
	{"first among its batches", "1", "ps.ledger.1.", 25},
	{"second among its batches", "2", "ps.ledger.1.", 25},
	{"first prepared", "1", ".prep.", 3},
	{"second prepared", "2", ".prep.", 3},
	{"committing", "", ".ctl", 5},
}

// TestADeadRankCostsItsPartOfTheWindow cuts each of two ranks off, one of which leads. AckWait is far away: what the dead
// rank held comes back at once.
func TestADeadRankCostsItsPartOfTheWindow(t *testing.T) {
	for _, d := range append(slices.Clip(deaths), death{"releasing a slot", "2", "ps.rel.", 9}, death{"wishing to join", "", "ps.board.join.", 1}) {
		t.Run(d.name, func(t *testing.T) {
			config := stagestest.Config(t, 120, func(c *schema.Config) { small(c); c.Draft.Ranks = 2; c.Broker.AckWait = "60s" })
			p := slain(t, config, d.rank, d.part, d.nth)
			var g group
			began := time.Now()
			if err := p.Run(t.Context(), g.watch(p)); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 50*time.Second {
				t.Errorf("took %s: work was left to AckWait", took)
			}
			whole(t, p)
			t.Logf("batches by rank %v, %d rank epochs", g.added, len(g.epochs))
		})
	}
}

func TestRanksNoticeADeathThemselves(t *testing.T) {
	config := stagestest.Config(t, 120, func(c *schema.Config) { small(c); c.Draft.Ranks = 3; c.Broker.AckWait = "60s" })
	p := slain(t, config, "2", "ps.ledger.1.", 20)
	p.Unattended = true
	var g group
	began := time.Now()
	if err := p.Run(t.Context(), g.watch(p)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 50*time.Second {
		t.Errorf("took %s: work was left to AckWait", took)
	}
	whole(t, p)
	if last := g.epochs[len(g.epochs)-1].Members; !slices.Equal(last, []string{"draft-1", "draft-3"}) {
		t.Errorf("members at the end: %v", last)
	}
}

func TestARankThatIsPutOutJoinsAgain(t *testing.T) {
	config := stagestest.Config(t, 120, func(c *schema.Config) { small(c); c.Train.Epochs, c.Draft.Ranks = 3, 2; c.Broker.AckWait = "60s" })
	p := stagestest.New(t, config)
	var devices openings
	p.Open = func(instance, device string) (kernels.Device, error) {
		dev, err := backend.Open(device)
		if err != nil || instance != "draft-2" {
			return dev, err
		}
		return devices.of(dev), nil
	}
	var g group
	watch := g.watch(p)
	out := 0
	putOut := func(ctx context.Context) error {
		conn, err := p.Dial(ctx, broker.RoleUp)
		if err != nil {
			return err
		}
		defer conn.Close()
		added := 0
		return conn.Ledger().Follow(ctx, broker.LedgerAll, 0, func(e broker.Entry) error {
			if r, ok := e.Record.(schema.Added); !ok || r.Rank != "draft-2" {
				return nil
			}
			if added++; added != 9 && added != 18 { // wrongly: it lives
				return nil
			}
			v, err := ranks.Read(ctx, conn.Ledger())
			if err != nil {
				return err
			}
			ms, err := ranks.Remove(ctx, conn.Ledger(), v, func(m policy.Member) bool { return m.Rank == "draft-2" })
			out += len(ms)
			return err
		})
	}
	err := p.Run(t.Context(), func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return watch(ctx) })
		g.Go(func() error { return putOut(ctx) })
		return g.Wait()
	})
	if err != nil {
		t.Fatal(err)
	}
	whole(t, p)
	if out != 2 || len(g.epochs) < 5 || g.most() != 2 {
		t.Errorf("put out %d times, in %d rank epochs of at most %d members", out, len(g.epochs), g.most())
	}
	if devices.all != 3 || devices.most != 1 || devices.open != 0 {
		t.Errorf("devices of the rank: %+v; want one each time, closed before the next", devices)
	}
}

// openings counts the devices that a process opens, one after another.
type openings struct{ all, most, open int }

type opening struct {
	kernels.Device
	count *openings
}

func (o *openings) of(dev kernels.Device) kernels.Device {
	o.all, o.open = o.all+1, o.open+1
	o.most = max(o.most, o.open)
	return &opening{dev, o}
}

func (o *opening) Close() error {
	o.count.open--
	return o.Device.Close()
}
