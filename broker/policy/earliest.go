package policy

// Load is what one of several ranks has in hand, and how fast it is.
type Load struct {
	Cost   float64 // seconds that it takes for a batch; not above 0 if that is not known
	Hand   int     // batches in hand, the one that it works on included
	Since  float64 // seconds since it began the one that it works on
	Beside bool    // it shares its device with a target
}

// even is how much later than the others a rank may be done by estimates that cannot tell: it takes the batch then.
const even = 0.03

// Earliest reports whether a rank should take one of some ready batches: whether it would complete it no later than the others
// would complete all of them, each by whoever completes it first. What a rank beside a target takes longer than the fastest counts
// twice: it gives that time to the target and takes as much from it, so that what the target makes comes later by it. A rank that
// is slow so leaves to others the little there is, one beside a target leaves more, and both take their part of what is plenty. Of
// ranks that have nothing in hand the fastest always takes one, as do all that are equal; and more that is ready is no reason to
// leave it. One that is not there yet counts as one: who would not take it need not ask.
func Earliest(own Load, others []Load, ready int) bool {
	fastest := own.Cost
	for _, o := range others {
		if o.Cost > 0 {
			fastest = min(fastest, o.Cost)
		}
	}
	at := own.done(1)*(1-even) + own.excess(fastest)
	left := max(1, ready)
	for _, o := range others {
		if !(o.Cost > 0) {
			continue
		}
		for k := 1; o.done(k)+o.excess(fastest) < at; k++ {
			if left--; left == 0 {
				return false
			}
		}
	}
	return true
}

// done is in how many seconds a rank would have completed so many batches more. One that is late with the batch that it works
// on is expected to be late by as much again: whoever hangs soon counts as slow.
func (l Load) done(more int) float64 {
	s := float64(more) * l.Cost
	if l.Hand > 0 {
		s += float64(l.Hand-1)*l.Cost + max(l.Cost-l.Since, l.Since-l.Cost)
	}
	return s
}

// excess is how much longer a rank beside a target takes for a batch than the fastest, as far as estimates can tell; 0 of others.
func (l Load) excess(fastest float64) float64 {
	if !l.Beside {
		return 0
	}
	return max(0, l.Cost*(1-even)-fastest)
}

// Deference is a rank's leaving of batches to others, and its end: when nobody has claimed one in the time in which it would have
// completed one it takes one, whatever the estimates say, so that nothing depends on a rank that is said to be fast and does not
// come. The model test does without: there a rank that may claim does so at any time, early or late, which is all that this rule
// changes. The zero value leaves nothing.
type Deference struct {
	until  float64
	on     bool
	none   bool // when it began nothing was ready
	claims int  // of all ranks, when it began
}

// Take reports, at a time in seconds, whether the rank takes a batch by [Earliest] or because it has left them long enough; and if
// not, for how many seconds it leaves them yet. The time counts anew whenever claims, how many batches all ranks have claimed,
// differs, and once there is something to leave, but runs where there seems to be nothing, too.
func (d *Deference) Take(now float64, own Load, others []Load, ready, claims int) (take bool, wait float64) {
	if Earliest(own, others, ready) {
		d.on = false
		return true, 0
	}
	if !d.on || d.none && ready > 0 || claims != d.claims {
		d.on, d.none, d.claims, d.until = true, ready <= 0, claims, now+own.Cost
	}
	return now >= d.until, d.until - now
}

// Taken ends the deference: the rank has taken a batch.
func (d *Deference) Taken() { d.on = false }
