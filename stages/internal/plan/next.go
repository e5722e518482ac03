package plan

import "sort"

// Next returns the first batch of a bucket at or after a plan index, in a window no earlier than the given one, and
// whether there is one.
func (p *Plan) Next(bucket string, window, index int) (BatchPlan, bool) {
	b := p.bucket(bucket)
	if b < 0 {
		return BatchPlan{}, false
	}
	for w := max(window, 0); w < p.windows; w++ {
		n := sort.Search(len(p.epochs), func(i int) bool { return p.epochs[i].window > w }) - 1
		e := p.epochs[n]
		before, after := e.before[w-e.window], e.before[w-e.window+1]
		first := e.batch + sum(before) // of the window, then of the bucket: the longest bucket comes first
		for longer := len(p.buckets) - 1; longer > b; longer-- {
			first += after[longer] - before[longer]
		}
		k := before[b] + max(0, index-first)
		if k < after[b] {
			docs, tokens := p.contents(n).batch(b, k)
			return BatchPlan{first + k - before[b], n, w, bucket, docs, tokens}, true
		}
	}
	return BatchPlan{}, false
}

// InWindows is the number of batches of a bucket in the windows from..to, both included.
func (p *Plan) InWindows(bucket string, from, to int) (n int) {
	if b := p.bucket(bucket); b >= 0 {
		for w := from; w <= to; w++ {
			n += p.inWindow(b, w)
		}
	}
	return n
}
