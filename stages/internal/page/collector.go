package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"penstock/broker"
	"penstock/schema"
	"penstock/stages/internal/monitor"
	"penstock/stages/internal/rundir"
)

const (
	every        = time.Second
	askBroker    = time.Second
	keepProblems = 50
	rateOver     = 10 // seconds that rates are averaged over
)

// Collector gathers what the page shows, once a second. It is safe for concurrent use.
type Collector struct {
	dir  *rundir.Dir
	conn *broker.Conn
	view func(context.Context) monitor.View

	steps  *history
	falls  *waterfalls
	meter  *meter
	live   *series
	whole  *series
	past   []past
	health judge

	mu       sync.Mutex
	counts   counts
	problems []Problem
	state    State
	encoded  []byte
	changed  chan struct{}
}

// past is how many batches each stage had done at a time.
type past struct {
	at   time.Time
	done map[string]uint64
}

// NewCollector returns a collector for the run in dir. view is asked for the run as the board has it.
func NewCollector(dir *rundir.Dir, conn *broker.Conn, view func(context.Context) monitor.View) *Collector {
	return &Collector{
		dir: dir, conn: conn, view: view,
		steps: &history{path: dir.Metrics()}, falls: newWaterfalls(), meter: newMeter(),
		live: newSeries(every.Seconds(), liveCells, true), whole: newSeries(every.Seconds(), wholeCells, false),
		changed: make(chan struct{}), encoded: []byte("{}"),
	}
}

// Run gathers until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	followed := make(chan error, 1)
	go func() {
		followed <- c.conn.Ledger().Trail(ctx, every/2, func(e broker.Entry) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.counts.apply(e)
			return nil
		})
	}()
	defer func() { cancel(); <-followed }()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := c.gather(ctx, nil); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-tick.C:
		case err := <-followed:
			followed <- err
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("follow the ledger: %w", err)
		case <-ctx.Done():
			return nil
		}
	}
}

// End gathers once more and marks the state as the last one, which says how the run ended. It comes after Run has returned.
func (c *Collector) End(ctx context.Context, how Health) error { return c.gather(ctx, &how) }

// Problem adds something that went wrong.
func (c *Collector) Problem(who, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = among(c.problems, Problem{float64(time.Now().UnixMilli()) / 1000, who, text})
}

// among adds a problem to those that are shown, of which the oldest gives way.
func among(list []Problem, p Problem) []Problem {
	list = append(list, p)
	return list[max(0, len(list)-keepProblems):]
}

// State returns the latest state.
func (c *Collector) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Latest returns the latest state as JSON, and a channel that closes with the next.
func (c *Collector) Latest() ([]byte, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.encoded, c.changed
}

func (c *Collector) gather(ctx context.Context, end *Health) error {
	now := time.Now()
	v := c.view(ctx)
	err := c.steps.follow()
	urls, uerr := c.dir.MetricsURLs()
	for _, s := range c.falls.collect(ctx, urls) {
		c.Problem(s.Process, fmt.Sprintf("%s of batch %d, window %d: %s", s.Name, s.Batch, s.Window, s.Error))
	}
	for _, l := range c.steps.skipped {
		c.Problem("draft", fmt.Sprintf("step %d is skipped: the gradient of %s is not finite", l.Window, l.Skipped))
	}
	c.steps.skipped = nil
	spent := c.meter.spent(v.Stages)
	c.live.tick(spent)
	c.whole.tick(spent)
	var names []string
	for _, s := range v.Stages {
		names = append(names, s.Instance)
	}
	if end != nil {
		v.TokensPerS, v.SlotsPerS = c.steps.speed()
	}
	s := State{At: float64(now.UnixMilli()) / 1000, Dir: c.dir.Path(), Ended: end != nil, View: v, Edges: c.edges(ctx, v), Rates: c.rates(now, v),
		Timeline: c.live.timeline(names), Curves: c.steps.curves(), Slowest: c.falls.slowest()}
	if s.Health = c.health.judge(now, s); end != nil {
		s.Health = *end
	}
	c.publish(s)
	return errors.Join(err, uerr)
}

// publish completes the state with what the ledger says, and shows it.
func (c *Collector) publish(s State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Seq, s.Ledger, s.Mix = c.state.Seq+1, c.counts.ledger, []Mix{}
	for _, b := range s.Buckets {
		t := c.counts.trained[b.Name]
		s.Mix = append(s.Mix, Mix{b.Name, t.batches, t.tokens, uint64(b.Published) + uint64(b.Remaining)})
	}
	s.Problems = slices.Concat(c.problems, c.counts.problems)
	slices.SortStableFunc(s.Problems, func(a, b Problem) int { return int(b.At*1000) - int(a.At*1000) })
	s.Problems = s.Problems[:min(len(s.Problems), keepProblems)]
	if len(s.Problems) == 0 {
		s.Problems = []Problem{}
	}
	b, err := json.Marshal(s)
	if err != nil { // a loss that is not a number, at worst
		s.Loss, s.CrossEntropy, s.Curves = 0, 0, new(history).curves()
		s.Health = Health{"bad", "the state cannot be shown: " + err.Error()}
		b, _ = json.Marshal(s)
	}
	c.state, c.encoded = s, b
	close(c.changed)
	c.changed = make(chan struct{})
}

// edges are the queues between the stages.
func (c *Collector) edges(ctx context.Context, v monitor.View) []Edge {
	fwd := Edge{broker.Fwd.Prefix, "batch", "target", 0, 0}
	for _, b := range v.Buckets {
		if b.Stock < 0 {
			fwd.Waiting, fwd.Open = -1, -1
			break
		}
		fwd.Waiting, fwd.Open = fwd.Waiting+b.Stock, fwd.Open+b.Open
	}
	return []Edge{fwd, c.hop(ctx, broker.Pack, v.Gen, "target", "pack"), c.hop(ctx, broker.Train, v.Gen, "pack", "draft")}
}

func (c *Collector) hop(ctx context.Context, e broker.Edge[schema.Hop], gen uint32, from, to string) Edge {
	ctx, cancel := context.WithTimeout(ctx, askBroker)
	defer cancel()
	credit, err := c.conn.HopCredit(ctx, e, gen)
	if err != nil {
		return Edge{e.Prefix, from, to, -1, -1}
	}
	return Edge{e.Prefix, from, to, int(credit.Queued), credit.Open}
}

// rates are batches a second by stage, over the latest seconds.
func (c *Collector) rates(now time.Time, v monitor.View) map[string]float64 {
	done := map[string]uint64{}
	for _, s := range v.Stages {
		stage, _, _ := strings.Cut(s.Instance, "-")
		done[stage] += s.Batches
	}
	c.past = append(c.past, past{now, done})
	c.past = c.past[max(0, len(c.past)-rateOver):]
	first := c.past[0]
	rates := map[string]float64{}
	for stage, n := range done {
		if d := now.Sub(first.at).Seconds(); d > 0 && n >= first.done[stage] {
			rates[stage] = float64(n-first.done[stage]) / d
		}
	}
	return rates
}
