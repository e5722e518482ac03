//go:build cuda

package cuda

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	base "penstock/kernels"
	"penstock/kernels/kernelstest"
)

// tolerable is how long what must end at once may take on a busy machine.
const tolerable = 20 * time.Second

// alone joins a communicator of one rank.
func alone(t *testing.T, d *Device) base.Comm {
	t.Helper()
	id, err := d.Invite()
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Join(t.Context(), id, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A communicator of one rank gives what went in, once a mark behind the work before it is reached. A mark that is set too late is
// never reached.
func TestCollectiveOfOne(t *testing.T) {
	d := gpu(t)
	peer, err := d.Peer()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", peer)
	const n = 1 << 20
	c := alone(t, d)
	x, sum := kernelstest.New(d, 1, n, kernelstest.Pattern(n, 1)), d.Alloc(1, n)
	for range 3 {
		d.Add(x, x)
		for reached, ok := c.Mark(), false; !ok; {
			if ok, err = reached(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		c.AllReduce(sum, x)
		if err := c.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(kernelstest.Read(d, sum), kernelstest.Read(d, x)) {
			t.Fatal("a sum of one is another")
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if ok, err := c.Mark()(t.Context()); ok || !errors.Is(err, errGivenUp) {
		t.Errorf("a mark after the end: %v, %v", ok, err)
	}
}

// A rank that waits for one that never comes is free once its ctx ends, and can join anew.
func TestCollectiveThatNobodyJoins(t *testing.T) {
	d := gpu(t)
	id, err := d.Invite()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	began := time.Now()
	time.AfterFunc(300*time.Millisecond, func() { cancel(over) })
	if _, err := d.Join(ctx, id, 0, 2); !errors.Is(err, over) || time.Since(began) > tolerable {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	if err := alone(t, d).Close(); err != nil {
		t.Error(err)
	}
}

// Two ranks on one GPU are refused by the library: why is said, and nothing hangs.
func TestCollectiveOfOneGPUTwice(t *testing.T) {
	a, b := gpu(t), gpu(t)
	id, err := a.Invite()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), tolerable)
	defer cancel()
	errs := make(chan error, 2)
	for rank, d := range []*Device{a, b} {
		go func() {
			switch c, err := d.Join(ctx, id, rank, 2); {
			case err == nil:
				errs <- errors.Join(errors.New("joined"), c.Close())
			case ctx.Err() != nil:
				errs <- err
			default:
				errs <- nil
			}
		}()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestCollectiveRefusesWhatIsNoID(t *testing.T) {
	d := gpu(t)
	for _, c := range []struct {
		id          []byte
		rank, ranks int
	}{{nil, 0, 1}, {make([]byte, 7), 0, 1}, {make([]byte, uniqueIDBytes), 1, 1}, {make([]byte, uniqueIDBytes), -1, 1}} {
		if _, err := d.Join(t.Context(), c.id, c.rank, c.ranks); err == nil {
			t.Errorf("joined as %d of %d by %d bytes", c.rank, c.ranks, len(c.id))
		}
	}
}
