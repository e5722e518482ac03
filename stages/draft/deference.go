package draft

import (
	"context"
	"errors"
	"sync"
	"time"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
)

// stockEvery is into how many parts a rank that leaves batches to others divides the time of one, to look at what is ready.
const stockEvery = 16

// deference is what a rank knows of the others, so as to leave to them what they would complete sooner. It is safe for concurrent use.
type deference struct {
	mu     sync.Mutex
	since  time.Time // that the rule counts from
	rule   policy.Deference
	stages map[string]schema.StageState // targets and ranks, as the board has them
	window uint32
	hands  map[policy.Member]hand // in that window
	left   uint32                 // one behind the latest window of which the rank has left batches; 0: none
}

// hand is what the ledger says of a member in the open window.
type hand struct {
	claimed, added int
	began          time.Time // of what it works on
}

func newDeference() *deference {
	return &deference{since: time.Now(), stages: map[string]schema.StageState{}}
}

// load is a member's, whose batches take so many operations.
func (d *deference) load(m policy.Member, operations float64, now time.Time) policy.Load {
	h, r := d.hands[m], d.stages[m.Rank]
	return policy.Load{Cost: operations * r.Pace, Hand: h.claimed, Since: now.Sub(h.began).Seconds(), Beside: d.beside(r.Device)}
}

// beside says whether a target has a device.
func (d *deference) beside(device string) bool {
	for _, s := range d.stages {
		if s.Stage == "target" && s.Device == device {
			return true
		}
	}
	return false
}

// look takes in what the ledger says of a window at a time.
func (d *deference) look(l *policy.Lineage, planned []uint32, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	hands := make(map[policy.Member]hand, len(l.Members))
	for _, id := range planned {
		s := l.Of(l.Next, id)
		m := policy.Member{Rank: s.Rank, Incarnation: s.Owner}
		h := hands[m]
		switch s.State {
		case policy.Claimed:
			h.claimed++
		case policy.Added:
			h.added++
		}
		hands[m] = h
	}
	for m, h := range hands {
		if before := d.hands[m]; d.window == l.Next && before.added == h.added && before.claimed > 0 {
			h.began = before.began
		} else {
			h.began = now
		}
		hands[m] = h
	}
	d.window, d.hands = l.Next, hands
}

// said takes in what an instance says of itself.
func (d *deference) said(s schema.StageState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stages[s.Instance] = s
}

// taken ends the deference: this rank has claimed a batch.
func (d *deference) taken() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rule.Taken()
}

// hasLeft says whether this rank has left batches of a window to others.
func (d *deference) hasLeft(window uint32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left == window+1
}

// watchHands follows on the ledger who works on what, and since when.
func (t *trainer) watchHands(ctx context.Context) error {
	for {
		changed := t.w.Ledger.Changed()
		t.w.Ledger.View(func(l *policy.Lineage) { t.deference.look(l, t.planned(l), time.Now()) })
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watchStages follows on the board how fast the ranks are, and where they and the targets are.
func (t *trainer) watchStages(ctx context.Context) error {
	return t.w.Conn.Board().Watch(ctx, "stage.*", func(h broker.Hint) error {
		if s, ok := h.Record.(schema.StageState); ok && (s.Stage == t.w.Stage || s.Stage == "target") {
			t.deference.said(s)
		}
		return nil
	})
}

// planned are the batches of the open window, in plan order; nil after the last one.
func (t *trainer) planned(l *policy.Lineage) (ids []uint32) {
	if int(l.Next) < t.run.Plan.Windows() {
		for _, b := range t.run.Plan.Window(int(l.Next)) {
			ids = append(ids, uint32(b.Index))
		}
	}
	return ids
}

// takes says whether this rank takes another batch of the open window if it has room, by [policy.Earliest], and if not, for how
// long it need not ask again. It asks the broker what is ready only where that decides.
func (t *trainer) takes(ctx context.Context) (ok bool, wait time.Duration, err error) {
	if t.shared == nil || t.w.Config.Deterministic {
		return true, 0, nil
	}
	var own policy.Load
	var others []policy.Load
	window, planned, unclaimed, claimed := uint32(0), 0, 0, 0
	d, now := t.deference, time.Now()
	t.w.Ledger.View(func(l *policy.Lineage) {
		ids := t.planned(l)
		if len(ids) == 0 {
			return
		}
		window, planned, unclaimed = l.Next, len(ids), l.Unclaimed(l.Next, ids)
		operations := t.costs.Rates().Of(t.run.Work(t.run.Plan.Batch(int(ids[0]))))
		d.mu.Lock()
		defer d.mu.Unlock()
		own = d.load(t.me, operations, now)
		own.Cost = operations * t.costs.Pace()
		claimed = own.Hand
		for _, m := range l.Members {
			if m != t.me {
				o := d.load(m, operations, now)
				others = append(others, o)
				claimed += o.Hand
			}
		}
	})
	ready := min(1, unclaimed)
	if ready > 0 && !policy.Earliest(own, others, ready) {
		hops, err := t.hops.Unsettled(ctx)
		if errors.Is(err, broker.ErrGone) { // the generation is over: whoever waits for a hop is told
			return true, 0, nil
		}
		if err != nil {
			return false, 0, err
		}
		ready = max(0, min(hops-claimed, unclaimed)) // later windows come after this one
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	ok, seconds := d.rule.Take(now.Sub(d.since).Seconds(), own, others, ready, planned-unclaimed)
	if ok {
		return true, 0, nil
	}
	if ready > 0 {
		d.left = window + 1
	}
	return false, time.Duration(min(seconds, own.Cost/stockEvery) * float64(time.Second)), nil
}
