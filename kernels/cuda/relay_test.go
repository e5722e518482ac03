//go:build cuda

package cuda

import (
	"slices"
	"testing"

	base "penstock/kernels"
	"penstock/kernels/kernelstest"
)

// Bytes get through host memory whole, chunk by chunk, copy behind copy: from this GPU as from another.
func TestRelay(t *testing.T) {
	d := gpu(t)
	for _, n := range []int{1, 1000, relayBytes / 4, relayBytes/4 + 1, 3*relayBytes/4 + 77} {
		src, first, second := d.Alloc(1, n), d.Alloc(1, n), d.Alloc(1, n)
		want := kernelstest.Pattern(n, uint64(n))
		d.Upload(src, want)
		if err := d.Sync(); err != nil { // as captures are complete before they are published
			t.Fatal(err)
		}
		for _, dst := range []base.Tensor{first, second} {
			d.enqueue(&call{"relay", nil}, func() error { return d.relay(d.ordinal, at("relay", dst), at("relay", src), int64(dst.Bytes())) })
		}
		for i, dst := range []base.Tensor{first, second} {
			if got := kernelstest.Read(d, dst); !slices.Equal(got, want) {
				t.Errorf("copy %d of %d elements differs", i, n)
			}
		}
		for _, x := range []base.Tensor{src, first, second} {
			d.Free(x)
		}
	}
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
}
