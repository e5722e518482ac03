package plan

import (
	"slices"

	"penstock/stages/internal/counter"
)

// contents are the batches of one epoch, by bucket.
type contents struct {
	epoch   int
	buckets []filled
}

// filled are the shuffled documents of one bucket, cut into batches.
type filled struct {
	docs   []int32
	ends   []int // of each batch in docs
	tokens []int // of each batch
}

// contents returns the batches of an epoch. The two epochs asked for last are kept: stages work around one place in the run.
func (p *Plan) contents(epoch int) *contents {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.recent[epoch%2]; c != nil && c.epoch == epoch {
		return c
	}
	c := &contents{epoch, make([]filled, len(p.buckets))}
	for i, b := range p.buckets {
		c.buckets[i] = p.fill(b, epoch)
	}
	p.recent[epoch%2] = c
	return c
}

// fill shuffles a bucket's documents by (seed, epoch, edge) and closes a batch before the document that would exceed the
// batch's tokens; a longer document makes a batch alone.
func (p *Plan) fill(b Bucket, epoch int) filled {
	f := filled{docs: slices.Clone(b.docs)}
	counter.New(p.seed, counter.Shuffle, uint64(epoch), uint64(b.Edge)).Shuffle(len(f.docs), func(i, j int) {
		f.docs[i], f.docs[j] = f.docs[j], f.docs[i]
	})
	tokens := 0
	for i, d := range f.docs {
		n := p.docs.Length(int(d))
		if tokens > 0 && tokens+n > p.tokens {
			f.ends, f.tokens = append(f.ends, i), append(f.tokens, tokens)
			tokens = 0
		}
		tokens += n
	}
	f.ends, f.tokens = append(f.ends, len(f.docs)), append(f.tokens, tokens)
	return f
}

// counts are the batches of each bucket.
func (c *contents) counts() []int {
	counts := make([]int, len(c.buckets))
	for i := range c.buckets {
		counts[i] = len(c.buckets[i].ends)
	}
	return counts
}

// batch returns batch k of a bucket: its documents and its tokens.
func (c *contents) batch(bucket, k int) (docs []int32, tokens int) {
	f := &c.buckets[bucket]
	start := 0
	if k > 0 {
		start = f.ends[k-1]
	}
	return f.docs[start:f.ends[k]:f.ends[k]], f.tokens[k]
}
