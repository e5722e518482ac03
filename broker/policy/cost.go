package policy

// Work is what a batch asks of a device, counted from the lengths of its documents.
type Work struct {
	Tokens  float64 // Σ length: rows of the target's forward, context of the drafter
	Squares float64 // Σ length²: pairs of tokens that attention looks at, up to a factor
	Slots   float64 // anchors × block size: rows of the drafter
}

// Add counts one document of a length in tokens, with so many slots.
func (w *Work) Add(length, slots int) {
	n := float64(length)
	w.Tokens += n
	w.Squares += n * n
	w.Slots += float64(slots)
}

// Rates turn work into a cost, in seconds or in any measure that a Correction brings to seconds. A target's forward is
// linear and quadratic in length (Token, Square); a drafter's step is linear in context and slots (Token, Slot).
type Rates struct {
	Token  float64
	Square float64
	Slot   float64
}

// Of is the cost of w.
func (r Rates) Of(w Work) float64 { return r.Token*w.Tokens + r.Square*w.Squares + r.Slot*w.Slots }

const (
	gain    = 0.2 // weight of a new measurement
	trusted = 3   // measurements of which the median is taken before the average begins
	stretch = 2   // a measurement counts as at most so many times the average, and at least as its so-manyth part
)

// Correction learns, for one instance, by which factor its measured times differ from the predicted costs: an
// exponentially weighted average for each bucket. One measurement moves an average by a fifth at most, so that an
// outlier does no harm and a lasting change is followed within a few batches. The zero value knows nothing.
type Correction struct {
	all     average
	buckets map[string]*average
}

// Observe takes in that a batch of a bucket took so many seconds. Costs and times that are not above 0 say nothing.
func (c *Correction) Observe(bucket string, cost, seconds float64) {
	ratio := seconds / cost
	if !(cost > 0 && seconds > 0 && ratio > 0 && ratio < maxRatio) {
		return
	}
	if c.buckets == nil {
		c.buckets = map[string]*average{}
	}
	b := c.buckets[bucket]
	if b == nil {
		b = &average{}
		c.buckets[bucket] = b
	}
	b.add(ratio)
	c.all.add(ratio)
}

// Seconds is a cost as this instance is expected to take for it: by the bucket's factor, by that of all buckets while
// the bucket has been measured less than a few times, or the cost itself before any measurement.
func (c *Correction) Seconds(bucket string, cost float64) float64 {
	switch b := c.buckets[bucket]; {
	case b != nil && b.n >= trusted:
		return cost * b.value
	case c.all.n > 0:
		return cost * c.all.value
	}
	return cost
}

// Pace is the factor over all buckets; 0 before any measurement.
func (c *Correction) Pace() float64 { return c.all.value }

// maxRatio keeps a measurement that overflows out.
const maxRatio = 1e300

// average is an exponentially weighted average that starts from the median of its first values.
type average struct {
	n     int
	first [trusted]float64
	value float64
}

func (a *average) add(x float64) {
	if a.n < trusted {
		a.first[a.n] = x
		a.n++
		a.value = median(a.first, a.n)
		return
	}
	a.value += gain * (max(a.value/stretch, min(x, a.value*stretch)) - a.value)
}

// median of the first n of v, the lower one of two.
func median(v [trusted]float64, n int) float64 {
	for i := 1; i < n; i++ {
		for j := i; j > 0 && v[j] < v[j-1]; j-- {
			v[j], v[j-1] = v[j-1], v[j]
		}
	}
	return v[(n-1)/2]
}
