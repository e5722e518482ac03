// Package sim runs the dispatcher against simulated devices in virtual time: the rules that choose, reserve, credit and
// commit are those of broker/policy, the slots those of broker/slots, the plan that of a run. Only the work is not done.
package sim

import (
	"context"
	"fmt"
	"slices"

	"penstock/broker/policy"
	"penstock/broker/slots"
	"penstock/schema"
	"penstock/stages/internal/account"
	"penstock/stages/internal/counter"
	"penstock/stages/internal/plan"
	"penstock/stages/internal/scenario"
)

// world is the state of one simulation.
type world struct {
	clock
	s       *scenario.Scenario
	plan    *plan.Plan
	times   scenario.Times
	batches []*batch   // in plan order
	windows [][]*batch // by window
	ids     [][]uint32 // by window, in plan order
	buckets []bucket
	rule    rule

	lineage    policy.Lineage
	reserve    policy.Reserve
	seq        uint64
	published  int // windows
	committing bool
	claims     int

	targets, packers, ranks []*instance
	roots                   queues // published and not taken, as the rule sorts them
	hops                    []*batch
	ready                   queues // packed and not claimed

	measured
}

// state is how far a batch has come.
type state uint8

const (
	planned  state = iota
	queued         // its root is published and not taken
	forward        // on a target
	captured       // in a target's slot
	copying        // into a packer's slot
	packed         // in a packer's slot
	training       // on a rank
	added
)

// batch is one planned batch on its way.
type batch struct {
	plan.BatchPlan
	bucket  int
	work    policy.Work
	forward float64 // predicted seconds
	step    float64
	head    policy.Head // as a rank weighs it, by step
	bytes   float64
	arrival int // place in the order of a loader that mixes lengths, for the rules that know no plan
	queue   int // that holds it

	state   state
	attempt int
	open    bool // its root is taken and not committed
	capture use
	packed  use
	rank    *instance
	at      times
}

// times are when a batch was published, taken, captured, pulled from a target's slot, packed, claimed, at hand on the rank's
// device, and stepped: those of its last attempt.
type times struct{ published, taken, captured, pulled, packed, claimed, fetched, stepped float64 }

// bucket is a bucket with its credit.
type bucket struct {
	name     string
	limits   policy.Limits
	limit    int
	open     int
	actuator policy.Actuator
	moves    int
}

// arrivalStream keeps the order of arrival apart from other draws of the same seed.
const arrivalStream = 0x61727276

func newWorld(s *scenario.Scenario, docs plan.Lengths, r rule) (*world, error) {
	p, err := plan.New(docs, s.Plan())
	if err != nil {
		return nil, err
	}
	w := &world{s: s, plan: p, rule: r}
	w.mixes = make([]mix, p.Epochs())
	for _, b := range p.Buckets() {
		limits := policy.Limits{Floor: p.Floor(b.Name), Ceiling: p.Ceiling(b.Name, s.Window.Lookahead)}
		w.buckets = append(w.buckets, bucket{name: b.Name, limits: limits, limit: max(1, limits.Ceiling)})
	}
	total := w.addBatches(docs)
	w.times = s.Times(total)
	for _, b := range w.batches {
		b.forward, b.step, b.bytes = w.times.Forward(b.work), w.times.Step(b.work), b.work.Tokens*float64(s.Row)
		b.head = policy.Head{Bucket: b.Bucket, Window: uint32(b.Window), Index: uint32(b.Index), Cost: b.step}
	}
	w.apply(schema.Gen{Gen: 1})
	return w, w.addInstances()
}

// addBatches lists the plan's batches and sums their work.
func (w *world) addBatches(docs plan.Lengths) (total policy.Work) {
	number := map[string]int{}
	for i := range w.buckets {
		number[w.buckets[i].name] = i
	}
	for n := range w.plan.Windows() {
		var list []*batch
		var ids []uint32
		for _, p := range w.plan.Window(n) {
			b := &batch{BatchPlan: p, bucket: number[p.Bucket]}
			for _, d := range p.Docs {
				w.s.Work(&b.work, docs.Length(int(d)))
			}
			w.mixes[b.Epoch].count(b, len(w.buckets))
			total.Tokens += b.work.Tokens
			total.Squares += b.work.Squares
			total.Slots += b.work.Slots
			list, ids = append(list, b), append(ids, uint32(p.Index))
		}
		order := make([]int, len(list))
		for i := range order {
			order[i] = list[0].Index + i
		}
		counter.New(w.s.Seed, arrivalStream, uint64(n)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for i, b := range list {
			b.arrival = order[i]
		}
		w.windows, w.ids, w.batches = append(w.windows, list), append(w.ids, ids), append(w.batches, list...)
	}
	return total
}

// addInstances places targets and ranks on devices, in turn, and every instance on a host.
func (w *world) addInstances() error {
	s := w.s
	n := s.GPUs
	if n == 0 {
		n = s.Target.Instances + s.Draft.Instances
	}
	devices := make([]*device, n)
	for i := range devices {
		devices[i] = &device{clock: &w.clock}
	}
	placed := 0
	for _, st := range []struct {
		name     string
		n, slots int
		list     *[]*instance
	}{{targetStage, s.Target.Instances, s.Target.Slots, &w.targets}, {packStage, s.Pack.Instances, s.Pack.Slots, &w.packers}, {draftStage, s.Draft.Instances, 0, &w.ranks}} {
		for i := range st.n {
			in := &instance{w: w, stage: st.name, name: fmt.Sprintf("%s-%d", st.name, i+1), number: i, host: i * s.Hosts / st.n}
			in.idle(account.NoInput)
			if st.name != packStage {
				in.dev = devices[placed%n]
				in.beside = slices.ContainsFunc(w.targets, func(t *instance) bool { return t.dev == in.dev })
				placed++
			}
			if st.slots > 0 {
				var err error
				in.poolIncarnation = uint64(len(w.all()) + 1)
				in.pool, err = slots.New(slots.Config{Pool: in.name, Incarnation: in.poolIncarnation, Slots: st.slots})
				if err != nil {
					return err
				}
				w.allocated += float64(st.slots) * w.slotBytes()
			}
			*st.list = append(*st.list, in)
		}
	}
	return nil
}

// slotBytes is the size of a slot: it takes any batch.
func (w *world) slotBytes() float64 {
	most := w.s.Batch
	for _, b := range w.batches {
		most = max(most, b.Tokens)
	}
	return float64(most) * float64(w.s.Row)
}

// all lists the instances: targets, packers, ranks.
func (w *world) all() []*instance {
	all := append([]*instance(nil), w.targets...)
	return append(append(all, w.packers...), w.ranks...)
}

// apply writes a record to the ledger and folds it into the lineage.
func (w *world) apply(r schema.Record) {
	w.seq++
	w.lineage.Apply(r, w.seq)
	w.reserve = policy.Reserve{Oldest: w.lineage.Next}
}

// record is a batch as records name it.
func (w *world) record(b *batch) schema.Batch {
	return schema.Batch{Gen: 1, Epoch: uint32(b.Epoch), Window: uint32(b.Window), Index: uint32(b.Index), Bucket: b.Bucket}
}

// run goes on until every window has committed, or nothing more can happen.
func (w *world) run(ctx context.Context) error {
	for _, c := range w.s.Crashes {
		w.after(c.At, func() { w.crash(c) })
	}
	w.rule.begin(w)
	w.settle()
	for int(w.lineage.Next) < len(w.windows) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !w.step() {
			return fmt.Errorf("stalled at %.1f s in window %d of %d: nothing is under way, and nothing can begin", w.now, w.lineage.Next, len(w.windows))
		}
		w.settle()
	}
	for _, i := range w.all() {
		i.enter("", -1)
	}
	return nil
}
