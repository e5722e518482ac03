//go:build cuda

package cuda

import (
	"testing"

	base "penstock/kernels"
	"penstock/kernels/kernelstest"
)

// Stretches that are waited for by another goroutine give what each of them was, though the next is enqueued by then, and
// lists that were put for a stretch stay until it is complete.
func TestCheckLater(t *testing.T) {
	d := gpu(t)
	const rows, cols, n = 3000, 640, 12
	table := d.Alloc(rows, cols)
	d.Upload(table, kernelstest.Pattern(rows*cols, 3))
	var slots [3]base.Tensor
	for i := range slots {
		slots[i] = d.Alloc(rows, cols)
	}
	want := make([]uint64, n)
	order := make([][]int32, n)
	for k := range n {
		for r := range rows {
			order[k] = append(order[k], int32((r*(2*k+1)+k)%rows))
		}
		d.Gather(slots[0], table, d.Index(order[k]))
		want[k] = d.CheckFeatures(slots[0]).Checksum
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	type pending struct {
		k    int
		wait func() (base.FeatureCheck, error)
	}
	ends := make(chan pending, n)
	for k := range n {
		out := slots[k%len(slots)]
		d.Gather(out, table, d.Index(order[k]))
		ends <- pending{k, d.CheckLater(out)}
		if k == n/2 {
			if err := d.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(ends)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range ends {
			if c, err := e.wait(); err != nil || c.Checksum != want[e.k] || !c.Finite || c.Zero || c.Constant {
				t.Errorf("stretch %d: %+v, %v, want the sum %x", e.k, c, err, want[e.k])
			}
		}
	}()
	<-done
}
