package policy

import (
	"fmt"
	"testing"
)

// BenchmarkFirst is a target's choice among the heads of 8 buckets.
func BenchmarkFirst(b *testing.B) {
	var heads []Head
	for i := range 8 {
		heads = append(heads, Head{Bucket: fmt.Sprintf("b%d", 384*(i+1)), Window: 7 + uint32(i%2), Index: uint32(100 + i), Cost: float64(1 + i*5%8)})
	}
	b.ReportAllocs()
	for b.Loop() {
		if i := (Order{MaxAge: 1}).First(heads); i != 6 {
			b.Fatalf("head %d", i)
		}
	}
}

// BenchmarkEarliest is whether one of 8 ranks takes one of 16 batches that are ready.
func BenchmarkEarliest(b *testing.B) {
	own, others := Load{Cost: 0.6, Hand: 1, Since: 0.1}, []Load{}
	for i := range 7 {
		others = append(others, Load{Cost: 0.5 + 0.01*float64(i), Hand: 2, Since: 0.05 * float64(i)})
	}
	b.ReportAllocs()
	for b.Loop() {
		if !Earliest(own, others, 16) {
			b.Fatal("it takes none")
		}
	}
}
