package page

import (
	"fmt"
	"time"

	"penstock/broker"
	"penstock/schema"
)

// counts is the ledger, counted. Its fields are guarded by the collector.
type counts struct {
	ledger   Ledger
	start    uint32                      // first window of the generation
	open     map[uint32]map[string]tally // added, by window and bucket
	windows  []map[string]tally          // committed, from the first window on
	trained  map[string]tally            // what they sum up to, by bucket
	problems []Problem
}

type tally struct{ batches, tokens uint64 }

// apply folds one entry in.
func (c *counts) apply(e broker.Entry) {
	at := float64(e.Stored.UnixNano()) / float64(time.Second)
	switch r := e.Record.(type) {
	case schema.Gen:
		c.ledger, c.start, c.open = Ledger{Generation: r.Gen}, r.Start, map[uint32]map[string]tally{}
		for len(c.windows) < int(r.Start) {
			c.windows = append(c.windows, nil) // committed before this ledger began
		}
		for _, w := range c.windows[r.Start:] {
			c.count(w, true)
		}
		c.windows = c.windows[:r.Start]
		if r.Gen > 1 {
			c.problems = among(c.problems, Problem{at, r.By, fmt.Sprintf("generation %d opened at window %d", r.Gen, r.Start)})
		}
	case schema.Claim:
		c.ledger.Claimed++
	case schema.Added:
		c.ledger.Added++
		c.ledger.Documents += uint64(r.Documents)
		if c.open == nil {
			c.open = map[uint32]map[string]tally{}
		}
		if c.open[r.Window] == nil {
			c.open[r.Window] = map[string]tally{}
		}
		t := c.open[r.Window][r.Bucket]
		c.open[r.Window][r.Bucket] = tally{t.batches + 1, t.tokens + uint64(r.Tokens)}
	case schema.Suspect:
		c.ledger.Suspect++
		c.problems = among(c.problems, Problem{at, r.From, fmt.Sprintf("batch %d of window %d (%s) is suspect: %s", r.Index, r.Window, r.Bucket, r.Reason)})
	case schema.Dead:
		c.ledger.Dead++
		c.problems = among(c.problems, Problem{at, "ledger", fmt.Sprintf("batch %d of window %d (%s) is rejected: %s", r.Index, r.Window, r.Bucket, r.Reason)})
	case schema.Commit:
		c.ledger.Committed++
		for len(c.windows) <= int(r.Window) {
			c.windows = append(c.windows, nil)
		}
		c.windows[r.Window] = c.open[r.Window]
		c.count(c.windows[r.Window], false)
		delete(c.open, r.Window)
	case schema.RankEpoch:
		if r.RankEpoch > 1 {
			c.problems = among(c.problems, Problem{at, "ledger", fmt.Sprintf("rank epoch %d: %d members", r.RankEpoch, len(r.Members))})
		}
	}
}

// count adds what a committed window trained to each bucket's sum, or takes it away where the window is to be done again.
func (c *counts) count(window map[string]tally, again bool) {
	if c.trained == nil {
		c.trained = map[string]tally{}
	}
	for bucket, t := range window {
		s := c.trained[bucket]
		if again {
			c.trained[bucket] = tally{s.batches - t.batches, s.tokens - t.tokens}
		} else {
			c.trained[bucket] = tally{s.batches + t.batches, s.tokens + t.tokens}
		}
	}
}
