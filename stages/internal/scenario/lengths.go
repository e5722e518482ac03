package scenario

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"penstock/schema/store"
	"penstock/stages/internal/counter"
)

// Lengths says how long the documents are: drawn from shares of tokens by bucket, or from a lognormal distribution, or
// those of a prepared store.
type Lengths struct {
	Documents int        `yaml:"documents"` // of an epoch; 0 with a store: all of it
	Shares    []Share    `yaml:"shares"`    // by rising edge
	Lognormal *Lognormal `yaml:"lognormal"`
	Store     string     `yaml:"store"`   // path
	Max       int        `yaml:"max"`     // tokens; needed for a store
	Buckets   string     `yaml:"buckets"` // as data.buckets; default: the edges of the shares
}

// Share is a bucket's share of all tokens. Lengths are uniform between the edge before and its own.
type Share struct {
	Edge  int     `yaml:"edge"`
	Share float64 `yaml:"share"`
}

// Lognormal draws exp(N(ln Median, Deviation²)), cut to Min..Max.
type Lognormal struct {
	Median    float64 `yaml:"median"`
	Deviation float64 `yaml:"deviation"`
	Min       int     `yaml:"min"`
	Max       int     `yaml:"max"`
}

// Documents are drawn lengths.
type Documents []int32

// Len is the number of documents.
func (d Documents) Len() int { return len(d) }

// Length is the tokens of document i.
func (d Documents) Length(i int) int { return int(d[i]) }

// lengthStream keeps the draws of lengths apart from others of the same seed.
const lengthStream = 0x6c656e67

// Draw returns the documents of the scenario. The same seed draws the same.
func (s *Scenario) Draw() (Documents, error) {
	l := s.Lengths
	if l.Store != "" {
		return fromStore(l.Store, l.Documents)
	}
	r := counter.New(s.Seed, lengthStream)
	docs := make(Documents, l.Documents)
	for i := range docs {
		if l.Lognormal != nil {
			docs[i] = l.Lognormal.draw(r)
		} else {
			docs[i] = drawShare(l.Shares, r)
		}
	}
	return docs, nil
}

func fromStore(path string, most int) (Documents, error) {
	s, err := store.Open(path)
	if err != nil {
		return nil, fmt.Errorf("lengths of a store: %w", err)
	}
	n := s.Len()
	if most > 0 {
		n = min(n, most)
	}
	docs := make(Documents, n)
	for i := range docs {
		docs[i] = int32(s.Length(i))
	}
	return docs, s.Close()
}

func (l *Lognormal) draw(r *counter.Rand) int32 {
	normal := math.Sqrt(-2*math.Log(1-r.Float64())) * math.Cos(2*math.Pi*r.Float64()) // Box and Muller, 1958
	return int32(max(float64(l.Min), min(float64(l.Max), l.Median*math.Exp(l.Deviation*normal))))
}

// drawShare draws a bucket, then a length in it. Buckets hold tokens by their shares, so documents by share over length.
func drawShare(shares []Share, r *counter.Rand) int32 {
	var total float64
	weight := func(i int) float64 {
		lo, hi := bounds(shares, i)
		return shares[i].Share / float64(lo+hi)
	}
	for i := range shares {
		total += weight(i)
	}
	at, x := 0, r.Float64()*total
	for ; at < len(shares)-1 && x >= weight(at); at++ {
		x -= weight(at)
	}
	lo, hi := bounds(shares, at)
	return int32(lo + int(r.Float64()*float64(hi-lo+1)))
}

// shortest is the least length of the first bucket's documents, as a part of its edge.
const shortest = 4

// bounds are the lengths of a bucket's documents.
func bounds(shares []Share, i int) (lo, hi int) {
	if i == 0 {
		return max(1, shares[0].Edge/shortest), shares[0].Edge
	}
	return shares[i-1].Edge + 1, shares[i].Edge
}

func (l *Lengths) longest() int {
	switch {
	case l.Max > 0:
		return l.Max
	case l.Lognormal != nil:
		return l.Lognormal.Max
	}
	return l.Shares[len(l.Shares)-1].Edge
}

func (l *Lengths) edges() string {
	if l.Buckets != "" {
		return l.Buckets
	}
	var edges []string
	for _, s := range l.Shares {
		edges = append(edges, strconv.Itoa(s.Edge))
	}
	return strings.Join(edges, ",")
}

func (l *Lengths) check() error {
	kinds := 0
	for _, given := range []bool{len(l.Shares) > 0, l.Lognormal != nil, l.Store != ""} {
		if given {
			kinds++
		}
	}
	var c checker
	c.ok(kinds == 1, "lengths needs one of shares, lognormal and store")
	c.ok(l.Store != "" || l.Documents > 0 && l.Documents <= 1<<28, "lengths.documents is %d, want 1..%d", l.Documents, 1<<28)
	c.ok(l.Store == "" || l.Max > 0, "lengths.max is not set: a store needs it, as data.max_length")
	c.ok(l.Buckets != "" || len(l.Shares) > 0, "lengths.buckets is not set: list edges, or auto:N")
	for i, s := range l.Shares {
		c.ok(s.Edge > 0 && s.Edge < 1<<24 && (i == 0 || s.Edge > l.Shares[i-1].Edge), "lengths.shares[%d]: edge %d does not rise", i, s.Edge)
		c.ok(s.Share > 0 && s.Share < math.MaxFloat32, "lengths.shares[%d]: share is %g, want a number above 0", i, s.Share)
	}
	if n := l.Lognormal; n != nil {
		c.ok(n.Median > 0 && n.Deviation >= 0 && n.Deviation < 10 && 1 <= n.Min && n.Min <= n.Max && n.Max < 1<<24,
			"lengths.lognormal: median %g, deviation %g, min %d, max %d do not describe lengths", n.Median, n.Deviation, n.Min, n.Max)
	}
	return errors.Join(c...)
}
