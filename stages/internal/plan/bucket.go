package plan

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// Bucket is one range of lengths that holds documents.
type Bucket struct {
	Name      string // b<edge>, the token in subjects
	Edge      int    // tokens of the longest documents it takes
	Documents int
	Tokens    int
	Batches   int     // over the run
	docs      []int32 // by number
}

// Buckets lists the buckets that hold documents, shortest first.
func (p *Plan) Buckets() []Bucket { return append([]Bucket(nil), p.buckets...) }

// bucket returns the place of a bucket by name, or -1.
func (p *Plan) bucket(name string) int {
	for i := range p.buckets {
		if p.buckets[i].Name == name {
			return i
		}
	}
	return -1
}

// newBuckets sorts the documents into buckets and leaves out the empty ones.
func newBuckets(docs Lengths, spec string, maxLength int) ([]Bucket, error) {
	edges, err := Edges(docs, spec, maxLength)
	if err != nil {
		return nil, err
	}
	all := make([]Bucket, len(edges))
	for i, e := range edges {
		all[i] = Bucket{Name: "b" + strconv.Itoa(e), Edge: e}
	}
	for i := range docs.Len() {
		n := docs.Length(i)
		at := sort.SearchInts(edges, n)
		if at == len(edges) || n < 1 {
			return nil, fmt.Errorf("document %d has %d tokens, outside 1..%d", i, n, edges[len(edges)-1])
		}
		b := &all[at]
		b.Documents++
		b.Tokens += n
		b.docs = append(b.docs, int32(i))
	}
	var used []Bucket
	for _, b := range all {
		if b.Documents > 0 {
			used = append(used, b)
		}
	}
	return used, nil
}

// Edges returns the upper edges, in tokens, that data.buckets asks for: a list, to which maxLength is added where it ends
// earlier, or auto:N for at most N buckets that hold about equally many tokens.
func Edges(docs Lengths, spec string, maxLength int) ([]int, error) {
	if n, ok := strings.CutPrefix(spec, "auto:"); ok {
		count, err := strconv.Atoi(n)
		if err != nil || count < 1 {
			return nil, fmt.Errorf("data.buckets is %q, want auto:N with N at least 1", spec)
		}
		return equalMass(docs, count), nil
	}
	var edges []int
	for _, field := range strings.Split(spec, ",") {
		edge, err := strconv.Atoi(strings.TrimSpace(field))
		switch {
		case err != nil || edge < 1:
			return nil, fmt.Errorf("data.buckets is %q: %q is no length in tokens; want edges like 256,512,1024, or auto:N", spec, strings.TrimSpace(field))
		case edge > maxLength:
			return nil, fmt.Errorf("data.buckets is %q: edge %d is above data.max_length %d", spec, edge, maxLength)
		case len(edges) > 0 && edge <= edges[len(edges)-1]:
			return nil, fmt.Errorf("data.buckets is %q: edge %d does not rise", spec, edge)
		}
		edges = append(edges, edge)
	}
	if edges[len(edges)-1] < maxLength {
		edges = append(edges, maxLength)
	}
	return edges, nil
}

// equalMass places at most n edges on the documents' lengths so that the buckets between hold about equally many tokens.
func equalMass(docs Lengths, n int) (edges []int) {
	lengths := make([]int, docs.Len())
	total := 0
	for i := range lengths {
		lengths[i] = docs.Length(i)
		total += lengths[i]
	}
	sort.Ints(lengths)
	mass := 0
	for i, length := range lengths {
		mass += length
		lastOfLength := i+1 == len(lengths) || lengths[i+1] > length
		if lastOfLength && (mass*n >= total*(len(edges)+1) || i+1 == len(lengths)) {
			edges = append(edges, length)
		}
	}
	return edges
}
