package policy

import "penstock/schema"

// Settled reports whether nobody needs to work on a batch any more: its record is stale, its gradient is in a sum, or it
// is dead.
func (l *Lineage) Settled(b schema.Batch) bool {
	return l.Stale(b) || l.Of(b.Window, b.Index).State >= Added
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
