//go:build cuda && gpus

package cuda

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	base "penstock/kernels"
	"penstock/kernels/kernelstest"
)

// on opens a GPU; the tests need the first two.
func on(t *testing.T, ordinal int) *Device {
	t.Helper()
	return opened(t, ordinal, base.BFloat16)
}

// joinPair joins devices, each on a goroutine.
func joinPair(ctx context.Context, devices [2]*Device) (seats [2]base.Comm, err error) {
	id, err := devices[0].Invite()
	if err != nil {
		return seats, err
	}
	var g errgroup.Group
	for rank, d := range devices {
		g.Go(func() (err error) {
			seats[rank], err = d.Join(ctx, id, rank, 2)
			return err
		})
	}
	return seats, g.Wait()
}

func pair(t *testing.T, devices [2]*Device) [2]base.Comm {
	t.Helper()
	seats, err := joinPair(t.Context(), devices)
	if err != nil {
		t.Fatal(err)
	}
	return seats
}

// Two GPUs get the same bits, the sum of both, in slices and whole, while they compute.
func TestCollectiveOfTwo(t *testing.T) {
	devices := [2]*Device{on(t, 0), on(t, 1)}
	seats := pair(t, devices)
	const n = 5 << 20
	var sums [2][]float32
	for round := range 3 {
		var g errgroup.Group
		for rank, d := range devices {
			g.Go(func() error {
				x, y, sum := d.Alloc(1, n), d.Alloc(1, n), d.Alloc(1, n)
				d.Upload(x, kernelstest.Pattern(n, uint64(10*round+rank)))
				if err := d.Sync(); err != nil {
					return err
				}
				column, into := x.Reshape(n, 1), sum.Reshape(n, 1)
				for _, cut := range [][2]int{{4 << 20, n}, {1 << 20, 4 << 20}, {0, 1 << 20}} {
					seats[rank].AllReduce(into.RowRange(cut[0], cut[1]), column.RowRange(cut[0], cut[1]))
					d.Add(y, x) // beside it
				}
				if err := seats[rank].Wait(t.Context()); err != nil {
					return err
				}
				sums[rank] = kernelstest.Read(d, sum)
				return d.Sync()
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		a, b := kernelstest.Pattern(n, uint64(10*round)), kernelstest.Pattern(n, uint64(10*round+1))
		for i := range a {
			a[i] += b[i]
		}
		if !slices.Equal(sums[0], a) || !slices.Equal(sums[1], a) {
			t.Errorf("round %d: %v and %v, want %v", round, sums[0][:3], sums[1][:3], a[:3])
		}
	}
	for _, c := range seats {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Sections of a sum that are marked in the middle of a GPU's work are summed while it goes on, each once both GPUs have it. The one with
// less work before it has the first.
func TestCollectiveBesideWork(t *testing.T) {
	devices := [2]*Device{on(t, 0), on(t, 1)}
	seats := pair(t, devices)
	reached := make(chan int, 2*sections)
	var both [sections]sync.WaitGroup
	for i := range both {
		both[i].Add(2)
	}
	var g errgroup.Group
	for rank, c := range seats {
		g.Go(func() error {
			_, err := sumBesideWork(t.Context(), devices[rank], c, rank, func(section int) error {
				reached <- rank
				both[section].Done()
				both[section].Wait()
				return nil
			})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, c := range seats {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if first := <-reached; first != 0 {
		t.Errorf("rank %d, which has twice the work, is first", first)
	}
}

// A rank that leaves in the middle does not hold the other, which joins the next communicator.
func TestCollectiveThatOneLeaves(t *testing.T) {
	devices := [2]*Device{on(t, 0), on(t, 1)}
	const n = 1 << 20
	for range 2 {
		seats := pair(t, devices)
		x := devices[0].Alloc(1, n)
		seats[0].AllReduce(x, x)
		ctx, cancel := context.WithCancelCause(t.Context())
		over := errors.New("over")
		time.AfterFunc(300*time.Millisecond, func() { cancel(over) })
		if err := seats[0].Wait(ctx); !errors.Is(err, over) {
			t.Errorf("waited in vain: %v", err)
		}
		var g errgroup.Group // in one process the last to leave clears up for both
		for _, c := range seats {
			g.Go(c.Close)
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}
}

const (
	childID   = "PENSTOCK_TEST_COMM" // the id that a child joins by, in hex
	childSize = 32 << 20
)

func init() { children[childID] = child }

// child is the second rank of TestCollectiveWhoseRankIsKilled, a process of its own: it takes part in one sum, says so, and waits to
// be killed.
func child(text string) error {
	id, err := hex.DecodeString(text)
	if err != nil {
		return err
	}
	d, err := Open(1, base.BFloat16)
	if err != nil {
		return err
	}
	c, err := d.Join(context.Background(), id, 1, 2)
	if err != nil {
		return err
	}
	x := d.Alloc(1, childSize)
	c.AllReduce(x, x)
	if err := c.Wait(context.Background()); err != nil {
		return err
	}
	fmt.Println("summed")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// A process that is killed in the middle of a sum does not hold the other, whose next communicator works.
func TestCollectiveWhoseRankIsKilled(t *testing.T) {
	d := on(t, 0)
	x := d.Alloc(1, childSize)
	for range 2 {
		id, err := d.Invite()
		if err != nil {
			t.Fatal(err)
		}
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childID+"="+hex.EncodeToString(id))
		child.Stderr = os.Stderr
		in, err := child.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), tolerable)
		c, err := d.Join(ctx, id, 0, 2)
		if err != nil {
			t.Fatal(err)
		}
		c.AllReduce(x, x)
		if err := c.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "summed"; {
		}
		c.AllReduce(x, x) // in which the child takes no part
		began := time.Now()
		if err := errors.Join(child.Process.Kill(), in.Close()); err != nil {
			t.Error(err)
		}
		_ = child.Wait()
		gone, giveUp := context.WithTimeout(ctx, time.Second)
		if err := c.Wait(gone); err == nil {
			t.Error("a sum with the dead")
		} else {
			t.Logf("after %v: %v", time.Since(began), err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		giveUp()
		cancel()
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		t.Logf("left after %v", time.Since(began))
	}
	if err := alone(t, d).Close(); err != nil {
		t.Error(err)
	}
}

// BenchmarkCollective is the sum of as many gradients as a drafter of five layers for Qwen3-8B has, over two GPUs.
func BenchmarkCollective(b *testing.B) {
	const n = 1_048_000_000
	var devices [2]*Device
	for i := range devices {
		d, err := Open(i, base.BFloat16)
		if err != nil {
			b.Fatal(err)
		}
		defer d.Close()
		devices[i] = d
	}
	seats, err := joinPair(b.Context(), devices)
	if err != nil {
		b.Fatal(err)
	}
	var parts, sums [2]base.Tensor
	for i, d := range devices {
		parts[i], sums[i] = d.Alloc(1, n), d.Alloc(1, n)
		if err := d.Sync(); err != nil {
			b.Fatal(err)
		}
		defer seats[i].Close()
	}
	b.SetBytes(4 * n)
	for b.Loop() {
		var g errgroup.Group
		for i, c := range seats {
			g.Go(func() error {
				c.AllReduce(sums[i], parts[i])
				return c.Wait(b.Context())
			})
		}
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}
