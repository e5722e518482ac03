package sim

import (
	"penstock/broker/policy"
	"penstock/broker/slots"
	"penstock/schema"
	"penstock/stages/internal/account"
)

// instance is one process of a stage: a target, a packer or a rank.
type instance struct {
	w               *world
	stage           string
	name            string
	number          int // within the stage, from 0
	host            int
	dev             *device // nil for a packer: it works on a copy engine of its own
	beside          bool    // a target has the same
	pool            *slots.Pool
	poolIncarnation uint64
	costs           policy.Correction
	deference       policy.Deference

	batch *batch // that it works on
	job   *job
	lives int // crashes so far
	down  bool

	spans []span
	cur   span
}

// span is a time in one activity, on a batch if it is work.
type span struct {
	from, to float64
	what     string
	bucket   int // -1 for none
}

// down is the activity of an instance that has crashed.
const down = "down"

// enter ends the current activity and begins another.
func (i *instance) enter(what string, bucket int) {
	now := i.w.now
	if i.cur.what == what && i.cur.bucket == bucket {
		return
	}
	if i.cur.what != "" && now > i.cur.from {
		i.cur.to = now
		i.spans = append(i.spans, i.cur)
	}
	i.cur = span{from: now, what: what, bucket: bucket}
}

// idle enters a cause of waiting.
func (i *instance) idle(cause string) { i.enter(cause, -1) }

// free reports whether the instance could begin something.
func (i *instance) free() bool { return !i.down && i.batch == nil }

// incarnation tells the instance from its predecessors.
func (i *instance) incarnation() uint64 { return uint64(i.lives) + 1 }

// take gives a slot of the instance's pool to a batch, by the rule of reservation.
func (i *instance) take(b *batch) (use, bool) {
	ref, ok := i.pool.Take(i.w.record(b), "", i.w.reserve.Admit)
	if !ok {
		return use{}, false
	}
	i.w.hold(b.bytes)
	return use{i, ref}, true
}

// use is one use of a slot; the zero value is none.
type use struct {
	of  *instance
	ref schema.SlotRef
}

// release gives the slot back, if this is still its use.
func (u *use) release(b *batch) {
	if u.of != nil && u.of.pool.Release(u.ref) {
		u.of.w.hold(-b.bytes)
	}
	*u = use{}
}

// working reports whether an activity is work of the stage's own: for a device, copies are time lost.
func working(stage, what string) bool {
	return account.Working(what) && (what != account.Copy || stage == packStage)
}

// Names of stages.
const (
	targetStage = "target"
	packStage   = "pack"
	draftStage  = "draft"
)
