package worker

import (
	"fmt"
	"testing"
	"time"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/schema/hf"
)

// BenchmarkParkChoose is a rank's choice among 64 hops of 8 buckets, half of them of the open window, of which the other 7 ranks
// work on 14; the hop goes back.
func BenchmarkParkChoose(b *testing.B) {
	const ranks, buckets, waiting, gen, open, me = 8, 8, 64, 3, 5, 1
	var l policy.Lineage
	l.Apply(schema.Gen{Gen: gen, Start: open}, 1)
	epoch := schema.RankEpoch{Gen: gen, Window: open, RankEpoch: 1}
	for r := range ranks {
		epoch.Members, epoch.Incarnations = append(epoch.Members, fmt.Sprintf("draft-%d", r+1)), append(epoch.Incarnations, uint64(r+1))
	}
	l.Apply(epoch, 2)

	costs := DraftCosts(hf.DrafterConfig{Geometry: hf.Geometry{HiddenSize: 4096, IntermediateSize: 12288, Layers: 5, Heads: 32, KVHeads: 8,
		HeadDim: 128, VocabSize: 151936}, TargetHiddenSize: 4096, Taps: []int{1, 9, 17, 25, 33}})
	p := NewPark(newKeeper(func(string) error { return nil }, time.Hour))
	var works [waiting]policy.Work
	claimed := 0
	for i := range waiting {
		length := 384 * (1 + i%buckets)
		h := schema.Hop{Batch: schema.Batch{Gen: gen, Window: open + uint32(i/(waiting/2)), Index: uint32(i), Bucket: fmt.Sprintf("b%d", length)}}
		for range 12288 / length {
			works[i].Add(length, 512*16)
		}
		costs.Observe(h.Bucket, works[i], time.Duration(300+i)*time.Millisecond)
		if owner := 2 + claimed%(ranks-1); h.Window == open && i%2 == 1 && claimed < 2*(ranks-1) {
			l.Apply(schema.Claim{Batch: h.Batch, Rank: epoch.Members[owner-1], Incarnation: uint64(owner), RankEpoch: 1}, uint64(3+i))
			claimed++
		}
		p.Add(&broker.Delivery[schema.Hop]{Record: h, AckSubject: fmt.Sprintf("$JS.ACK.PS_TRAIN.train-3.%d", i)})
	}
	cost := func(h schema.Hop) float64 { return costs.Seconds(h.Bucket, works[h.Index]) }
	may := func(h schema.Hop) bool {
		return l.Settled(h.Batch) || h.Gen == l.Gen && h.Window == l.Next && !l.Busy(h.Batch, me)
	}
	b.ReportAllocs()
	for b.Loop() {
		h, ok := p.Choose(policy.Order{}, cost, may)
		if !ok || h.Record.Window != open || h.Record.Index%2 == 1 && h.Record.Index < 2*2*(ranks-1) {
			b.Fatalf("hop %d of window %d was chosen", h.Record.Index, h.Record.Window)
		}
		p.Return(h)
	}
}
