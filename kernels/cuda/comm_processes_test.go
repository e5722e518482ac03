//go:build cuda

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
	"strconv"
	"syscall"
	"testing"

	base "penstock/kernels"
	"penstock/kernels/kernelstest"
)

// childRank is set for a process that is one of two ranks on the first GPU, to the number of the rank. Each says that it is on another
// host: so the library, which refuses two ranks on one GPU of a host, moves bytes between them by sockets.
const childRank = "PENSTOCK_TEST_RANK"

func init() { children[childRank] = processRank }

const (
	cut      = 1 << 20 // elements of a section
	sections = 5
)

// processRank sums sections, each once it is told that both ranks have it, while its GPU goes on working; and then what the other
// takes no part in, for it is killed.
func processRank(text string) error {
	rank, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	d, err := Open(0, base.BFloat16)
	if err != nil {
		return err
	}
	told := bufio.NewScanner(os.Stdin)
	var id []byte
	if rank == 0 {
		id, err = d.Invite()
		fmt.Println(hex.EncodeToString(id))
	} else {
		told.Scan()
		id, err = hex.DecodeString(told.Text())
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), tolerable)
	defer cancel()
	c, err := d.Join(ctx, id, rank, 2)
	if err != nil {
		return err
	}
	sums, err := sumBesideWork(ctx, d, c, rank, func(i int) error {
		fmt.Println("ready", i)
		if !told.Scan() {
			return io.ErrUnexpectedEOF
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Println("summed")
	if rank == 1 {
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}
	c.AllReduce(sums, sums)
	fmt.Println("waits")
	if err := c.Wait(ctx); err == nil {
		return errors.New("a sum with the dead")
	} else if ctx.Err() != nil {
		return fmt.Errorf("nothing is said of the other's end: %w", err)
	}
	return errors.Join(c.Close(), d.Sync())
}

// sumBesideWork returns the sum over two ranks of a pattern that the rank numbers, having looked at it. Rank 1 has twice the work
// before each section. Once a section is ready there, both waits until the other rank has it, too.
func sumBesideWork(ctx context.Context, d *Device, c base.Comm, rank int, both func(section int) error) (base.Tensor, error) {
	const side = 4096
	half, product := d.AllocHalf(side, side), d.AllocHalf(side, side)
	part := kernelstest.New(d, 1, sections*cut, kernelstest.Pattern(sections*cut, uint64(rank))).Reshape(sections*cut, 1)
	sums := d.Alloc(sections*cut, 1)
	var marks []func(context.Context) (bool, error)
	for i := range sections {
		for range 20 * (1 + rank) {
			d.Gemm(product, half, half, false, false, 0)
		}
		d.Copy(sums.RowRange(i*cut, (i+1)*cut), part.RowRange(i*cut, (i+1)*cut))
		marks = append(marks, c.Mark())
	}
	for i, reached := range marks {
		for ok, err := false, error(nil); !ok; {
			if ok, err = reached(ctx); err != nil {
				return sums, err
			}
		}
		if err := both(i); err != nil {
			return sums, err
		}
		c.AllReduce(sums.RowRange(i*cut, (i+1)*cut), sums.RowRange(i*cut, (i+1)*cut))
	}
	if err := c.Wait(ctx); err != nil {
		return sums, err
	}
	want := kernelstest.Pattern(sections*cut, 0)
	for i, v := range kernelstest.Pattern(sections*cut, 1) {
		want[i] += v
	}
	if !slices.Equal(kernelstest.Read(d, sums), want) {
		return sums, fmt.Errorf("rank %d has another sum", rank)
	}
	return sums, nil
}

// ranks are the two processes, by what they say and are told.
type ranks struct {
	t    *testing.T
	cmd  [2]*exec.Cmd
	in   [2]io.WriteCloser
	said [2]*bufio.Scanner
}

func startRanks(t *testing.T) *ranks {
	t.Helper()
	r := &ranks{t: t}
	for rank := range r.cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childRank+"="+strconv.Itoa(rank), "NCCL_HOSTID=host"+strconv.Itoa(rank), "NCCL_SOCKET_IFNAME=lo", "NCCL_IB_DISABLE=1")
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		r.cmd[rank], r.in[rank], r.said[rank] = cmd, in, bufio.NewScanner(out)
	}
	return r
}

func (r *ranks) hear(rank int) string {
	r.t.Helper()
	if !r.said[rank].Scan() {
		r.t.Fatalf("rank %d has ended", rank)
	}
	return r.said[rank].Text()
}

func (r *ranks) tell(rank int, line string) {
	r.t.Helper()
	if _, err := fmt.Fprintln(r.in[rank], line); err != nil {
		r.t.Fatal(err)
	}
}

// Two processes sum, section by section, while their GPU works; one that is killed does not hold the other.
func TestCollectiveOfTwoProcesses(t *testing.T) {
	r := startRanks(t)
	r.tell(1, r.hear(0))
	for i := range sections {
		for rank := range r.cmd {
			if got, want := r.hear(rank), fmt.Sprint("ready ", i); got != want {
				t.Fatalf("rank %d: %s, want %s", rank, got, want)
			}
		}
		for rank := range r.cmd {
			r.tell(rank, "both")
		}
	}
	for rank := range r.cmd {
		if got := r.hear(rank); got != "summed" {
			t.Fatalf("rank %d: %s", rank, got)
		}
	}
	if got := r.hear(0); got != "waits" {
		t.Fatal(got)
	}
	if err := r.cmd[1].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd[0].Wait(); err != nil {
		t.Errorf("the rank that is left: %v", err)
	}
}
