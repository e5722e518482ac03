package target

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
)

// TestHeadsNeverStarve has targets with random views of the buckets work on a small plan, while roots are handed back, come
// twice, and targets die. The targets share one broker, which keeps time by the bubble's clock. Whenever a target is free and
// a root of the oldest window lies ready, one is taken soon; and nobody asks on and on without waiting.
func TestHeadsNeverStarve(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{
			buckets: rapid.IntRange(1, 4).Draw(rt, "buckets"), targets: rapid.IntRange(1, 3).Draw(rt, "targets"),
			slots: rapid.IntRange(2, 4).Draw(rt, "slots"), windows: rapid.IntRange(2, 8).Draw(rt, "windows"),
			lookahead: rapid.IntRange(0, 3).Draw(rt, "lookahead"), deterministic: rapid.Bool().Draw(rt, "deterministic"),
			twice: rapid.IntRange(0, 20).Draw(rt, "percent delivered twice"), die: rapid.IntRange(0, 10).Draw(rt, "percent of deaths"),
			lag: time.Duration(rapid.IntRange(0, 50).Draw(rt, "milliseconds that views are behind")) * time.Millisecond,
		}
		for w.windows*w.buckets > len(w.plan) || uint32(w.windows) > w.plan[len(w.plan)-1].Window+1 {
			window := uint32(0)
			if n := len(w.plan); n > 0 {
				window = w.plan[n-1].Window
				if rapid.IntRange(0, 2).Draw(rt, "ends the window") == 0 {
					window++
				}
			}
			bucket := name(rapid.IntRange(0, w.buckets-1).Draw(rt, "bucket"))
			w.plan = append(w.plan, schema.Batch{Gen: 1, Window: window, Index: uint32(len(w.plan)), Bucket: bucket})
		}
		seed := rapid.Uint64().Draw(rt, "seed")
		synctest.Test(t, func(*testing.T) {
			w.rand = rand.New(rand.NewPCG(seed, 0))
			w.run()
		})
		if w.failed != "" {
			rt.Fatal(w.failed)
		}
	})
}

const (
	longest = time.Second // that a root of the oldest window may lie ready beside a free target
	atOnce  = 16          // roots that one target hands back without waiting
)

func name(bucket int) string { return fmt.Sprint("b", bucket) }

// world is a plan, the broker's queues, and a drafter that adds batches of the oldest window only and frees their slots then.
type world struct {
	buckets, targets, slots, windows, lookahead, twice, die int

	deterministic bool
	lag           time.Duration
	plan          []schema.Batch

	g      sync.WaitGroup
	mu     sync.Mutex
	rand   *rand.Rand
	queues map[string]*queue
	next   uint32 // first window that has not committed
	added  map[uint32]bool
	held   []map[uint32]bool // by target: the batches in its slots
	free   []bool            // by target: it computes nothing and has a slot
	failed string
}

// queue is a consumer of one bucket.
type queue struct {
	fresh, again []schema.Batch
	open         map[uint32]bool
	limit        int
}

func (w *world) run() {
	w.queues, w.added = map[string]*queue{}, map[uint32]bool{}
	for b := range w.buckets {
		perWindow := make([]int, w.plan[len(w.plan)-1].Window+1)
		for _, p := range w.plan {
			if p.Bucket == name(b) {
				perWindow[p.Window]++
			}
		}
		w.queues[name(b)] = &queue{open: map[uint32]bool{}, limit: policy.Bounds(perWindow, w.lookahead).Clamp(0)}
	}
	w.publish(0, uint32(w.lookahead))
	w.held, w.free = make([]map[uint32]bool, w.targets), make([]bool, w.targets)
	for i := range w.targets {
		w.held[i] = map[uint32]bool{}
		w.g.Go(func() {
			for w.live(i) {
			}
		})
	}
	w.g.Go(w.watch)
	w.g.Wait()
}

func (w *world) publish(from, to uint32) {
	for _, p := range w.plan {
		if p.Window >= from && p.Window <= to {
			w.queues[p.Bucket].fresh = append(w.queues[p.Bucket].fresh, p)
		}
	}
}

func (w *world) over() bool {
	return w.failed != "" || w.next > w.plan[len(w.plan)-1].Window
}

func (w *world) fail(format string, args ...any) {
	if w.failed == "" {
		w.failed = fmt.Sprintf(format, args...)
	}
}

// watch looks every millisecond whether a root of the oldest window lies ready beside a free target.
func (w *world) watch() {
	for since := time.Now(); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		over, ready := w.over(), slices.Contains(w.free, true) && w.ready()
		if !ready {
			since = time.Now()
		}
		if time.Since(since) > longest {
			w.fail("window %d: a root lies ready for %v, held %v, free %v", w.next, longest, w.held, w.free)
		}
		w.mu.Unlock()
		if over {
			return
		}
	}
}

func (w *world) ready() bool {
	for _, q := range w.queues {
		now := q.again
		if len(q.open) < q.limit {
			now = append(slices.Clone(now), q.fresh...)
		}
		for _, p := range now {
			if p.Window == w.next {
				return true
			}
		}
	}
	return false
}

// live is one life of target i. It reports whether another one follows.
func (w *world) live(i int) bool {
	ctx := context.Background()
	h := &heads{after: w.after, cost: func(b string, _ policy.Work) float64 { return float64(len(b)) + float64(b[1]) },
		order: policy.Order{Deterministic: w.deterministic, MaxAge: headAge}, idle: minIdle}
	w.mu.Lock()
	for b := range w.buckets {
		h.buckets = append(h.buckets, &head{name: name(b), pull: &asker{w: w, bucket: name(b)}})
		h.advance(h.buckets[b], w.next, uint32(w.rand.IntN(len(w.plan)+1)), time.Now())
	}
	lag := time.Duration(w.rand.Int64N(int64(w.lag + 1)))
	w.mu.Unlock()
	seen, view, refused := time.Now(), policy.Reserve{}, 0
	for {
		w.mu.Lock()
		if w.over() {
			w.mu.Unlock()
			return false
		}
		if time.Since(seen) >= lag {
			seen, view.Oldest = time.Now(), w.next
		}
		free := w.slots - len(w.held[i])
		w.free[i] = free > 0
		w.mu.Unlock()
		if free == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		d, err := h.pull(ctx, view.Oldest, func(x policy.Head) bool { return view.Admit(x.Window, free) })
		if errors.Is(err, broker.ErrEmpty) {
			refused = 0
			time.Sleep(h.pause())
			continue
		}
		if !w.take(i, d.Record.Batch, view) {
			h.refuse(d.Record.Batch)
			if refused++; refused > atOnce {
				w.mu.Lock()
				w.fail("target %d hands back %d roots without waiting", i, refused)
				w.mu.Unlock()
			}
			continue
		}
		refused = 0
		h.settled()
		w.mu.Lock()
		forward, dies := time.Duration(1+w.rand.IntN(20))*time.Millisecond, w.rand.IntN(100) < w.die
		w.mu.Unlock()
		time.Sleep(forward)
		if dies {
			w.mu.Lock()
			for index := range w.held[i] {
				w.back(w.plan[index])
			}
			clear(w.held[i])
			w.mu.Unlock()
			return true
		}
		w.g.Go(func() { w.train(d.Record.Batch) })
	}
}

// take gives a batch a slot of target i, or hands its root back.
func (w *world) take(i int, p schema.Batch, view policy.Reserve) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Window < w.next || w.added[p.Index] || w.held[i][p.Index] {
		return true
	}
	if !view.Admit(p.Window, w.slots-len(w.held[i])) {
		time.AfterFunc(notYet, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.back(p)
		})
		return false
	}
	w.held[i][p.Index], w.free[i] = true, false
	if w.rand.IntN(100) < w.twice {
		w.back(p)
	}
	return true
}

// back has a root delivered again, at the end of what comes again.
func (w *world) back(p schema.Batch) {
	if q := w.queues[p.Bucket]; q.open[p.Index] && !slices.Contains(q.again, p) {
		q.again = append(q.again, p)
	}
}

// train adds a batch once its window is the oldest, and commits the window with its last one.
func (w *world) train(p schema.Batch) {
	for first := true; ; first = false {
		w.mu.Lock()
		if w.over() || p.Window < w.next {
			break
		}
		if p.Window == w.next && !first {
			w.added[p.Index] = true
			w.release(p)
			w.commit()
			break
		}
		w.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
	}
	w.mu.Unlock()
}

func (w *world) release(p schema.Batch) {
	for _, held := range w.held {
		delete(held, p.Index)
	}
}

func (w *world) commit() {
	for _, p := range w.plan {
		if p.Window == w.next && !w.added[p.Index] {
			return
		}
	}
	for _, p := range w.plan {
		if p.Window == w.next {
			q := w.queues[p.Bucket]
			delete(q.open, p.Index)
			q.again = slices.DeleteFunc(q.again, func(x schema.Batch) bool { return x == p })
			w.release(p)
		}
	}
	w.next++
	w.publish(w.next+uint32(w.lookahead), w.next+uint32(w.lookahead))
}

func (w *world) after(bucket string, window, index uint32) (policy.Head, policy.Work) {
	for _, p := range w.plan {
		if p.Bucket == bucket && p.Window >= window && p.Index >= index {
			return policy.Head{Bucket: bucket, Window: p.Window, Index: p.Index}, policy.Work{}
		}
	}
	return policy.Head{Bucket: bucket, Window: nothing, Index: nothing}, policy.Work{}
}

// asker is one target's puller of one bucket.
type asker struct {
	w      *world
	bucket string
}

func (a *asker) FetchNoWait(context.Context) (*broker.Delivery[schema.Root], error) {
	time.Sleep(3 * time.Millisecond)
	if d := a.give(); d != nil {
		return d, nil
	}
	return nil, broker.ErrEmpty
}

func (a *asker) give() *broker.Delivery[schema.Root] {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	q := a.w.queues[a.bucket]
	from := &q.again
	if len(q.again) == 0 {
		if from = &q.fresh; len(q.fresh) == 0 || len(q.open) >= q.limit {
			return nil
		}
	}
	p := (*from)[0]
	*from = (*from)[1:]
	q.open[p.Index] = true
	return &broker.Delivery[schema.Root]{Record: schema.Root{Batch: p}}
}

func (a *asker) Spent(context.Context) (bool, error) { return false, nil }
func (a *asker) Close(context.Context) error         { return nil }
