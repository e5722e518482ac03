package policy

import "penstock/schema"

// Settled reports whether nobody needs to work on a batch any more: its record is stale, its gradient is in a sum, or it
// is dead.
func (l *Lineage) Settled(b schema.Batch) bool {
	return l.Stale(b) || l.Of(b.Window, b.Index).State >= Added
}

// Right is what a rank may do with a batch.
type Right uint8

// The rights to a batch.
const (
	Drop   Right = iota // nobody needs it
	Take                // write a claim, and work if the ledger stores it
	Resume              // the claim stands, of an attempt that was given up
)

// Claimable returns the right of the rank incarnation owner to a batch, and the ledger sequence that its next record
// must follow.
func (l *Lineage) Claimable(b schema.Batch, owner uint64) (Right, uint64) {
	s := l.Of(b.Window, b.Index)
	switch {
	case l.Settled(b):
		return Drop, s.Seq
	case s.State == Claimed && s.Owner == owner:
		return Resume, s.Seq
	}
	return Take, s.Seq
}

// Opened reports whether a rank that works in generation gen may look at a batch: its window is the open one, or the
// record is old and to be settled. Until then a hop is parked.
func (l *Lineage) Opened(gen uint32, b schema.Batch) bool {
	return l.Gen >= gen && (b.Gen != gen || b.Window <= l.Next)
}

// Verdict is what becomes of a batch whose features are bad.
type Verdict uint8

// The verdicts on bad features.
const (
	Ignore  Verdict = iota // nobody needs the batch
	Redo                   // the first time: compute the features again
	Declare                // the second time: the batch is dead
)

// Judge returns the verdict on a batch whose features are bad, and the ledger sequence that its record must follow.
func (l *Lineage) Judge(b schema.Batch) (Verdict, uint64) {
	s := l.Of(b.Window, b.Index)
	switch {
	case l.Settled(b):
		return Ignore, s.Seq
	case s.Suspects > 0:
		return Declare, s.Seq
	}
	return Redo, s.Seq
}
