package reduce

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"penstock/broker/policy"
	"penstock/kernels"
	"penstock/kernels/mem"
	"penstock/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const elements = 300

// ring makes n groups that know each other.
func ring(t *testing.T, n, parts int) ([]*Shared, []policy.Member) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "s")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	infos := map[policy.Member]schema.PoolInfo{}
	find := func(_ context.Context, m policy.Member) (schema.PoolInfo, error) {
		if info, ok := infos[m]; ok {
			return info, nil
		}
		return schema.PoolInfo{}, mem.ErrStale
	}
	var groups []*Shared
	var members []policy.Member
	for i := range n {
		m := policy.Member{Rank: fmt.Sprintf("draft-%d", i+1), Incarnation: uint64(100 + i)}
		g, err := Share(&kernels.Ref{}, m, dir, parts, elements, find)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
		infos[m] = g.Info()
		groups, members = append(groups, g), append(members, m)
	}
	return groups, members
}

func fill(t kernels.Tensor, seed float64) {
	for i := range t.F32 {
		t.F32[i] = float32(math.Sin(seed + 0.1*float64(i)))
	}
}

// Members that hold parts of a list get the bits, and the notes, that one rank gets which holds them all.
func TestEveryMemberGetsTheSumOfOne(t *testing.T) {
	const parts = 6
	groups, members := ring(t, 3, parts)
	one := Alone(&kernels.Ref{}, parts, elements)
	var list, alone []Part
	var want []string
	round := Round{1, 7, 2}
	for i := range parts {
		holder := (i * i) % 3
		note := []byte(fmt.Sprintf("note %d", i))
		for _, g := range []Group{groups[holder], one} {
			fill(g.Part(i), float64(i))
			if err := g.Bring(round, i, note); err != nil {
				t.Fatal(err)
			}
		}
		list, alone = append(list, Part{members[holder], i}), append(alone, Part{Index: i})
		want = append(want, string(note))
	}
	total := kernels.Host(1, elements, make([]float32, elements))
	if _, err := one.Sum(t.Context(), round, alone, total); err != nil {
		t.Fatal(err)
	}
	for n, g := range groups {
		sum := kernels.Host(1, elements, slices.Repeat([]float32{9}, elements))
		notes, err := g.Sum(t.Context(), round, list, sum)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(sum.F32, total.F32) {
			t.Errorf("member %d has another sum", n)
		}
		for i, note := range notes {
			if string(note) != want[i] {
				t.Errorf("member %d, note %d: %q", n, i, note)
			}
		}
	}
}

// A member whose process does not answer when its slab is first opened is waited for until the round ends.
func TestAFrozenMemberIsAwaited(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	self, other := policy.Member{Rank: "draft-1", Incarnation: 100}, policy.Member{Rank: "draft-2", Incarnation: 101}
	var info schema.PoolInfo
	g, err := Share(&kernels.Ref{}, self, dir, 1, elements, func(context.Context, policy.Member) (schema.PoolInfo, error) { return info, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	info = g.Info()
	info.Pool, info.Incarnation, info.Socket = other.Rank, other.Incarnation, other.Rank+".sock"
	frozen, err := net.Listen("unix", filepath.Join(dir, info.Socket))
	if err != nil {
		t.Fatal(err)
	}
	putOut := errors.New("it was put out")
	ctx, cancel := context.WithCancelCause(t.Context())
	var open errgroup.Group
	open.Go(func() error {
		var asked []net.Conn
		for {
			c, err := frozen.Accept()
			if err != nil {
				for _, c := range asked {
					c.Close()
				}
				return nil
			}
			if asked = append(asked, c); len(asked) == 2 {
				cancel(putOut)
			}
		}
	})
	total := kernels.Host(1, elements, make([]float32, elements))
	if _, err := g.Sum(ctx, Round{1, 3, 2}, []Part{{other, 0}}, total); !errors.Is(err, putOut) {
		t.Errorf("a sum with a frozen member: %v", err)
	}
	frozen.Close()
	_ = open.Wait()
}

func TestAPartIsAwaitedUntilItIsBroughtForTheRound(t *testing.T) {
	groups, members := ring(t, 2, 1)
	list := []Part{{members[0], 0}, {members[1], 0}}
	now, before := Round{1, 3, 2}, Round{1, 3, 1}
	fill(groups[0].Part(0), 1)
	fill(groups[1].Part(0), 2)
	if err := errors.Join(groups[0].Bring(now, 0, nil), groups[1].Bring(before, 0, nil)); err != nil {
		t.Fatal(err)
	}
	total := kernels.Host(1, elements, make([]float32, elements))
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("the rank epoch is over")
	var void, g errgroup.Group
	void.Go(func() error {
		_, err := groups[0].Sum(ctx, now, list, total)
		return err
	})
	cancel(over)
	if err := void.Wait(); !errors.Is(err, over) {
		t.Errorf("a part of another round: %v", err)
	}
	g.Go(func() error {
		_, err := groups[0].Sum(t.Context(), now, list, total)
		return err
	})
	groups[1].Withdraw()
	if err := groups[1].Bring(now, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if got, want := total.F32[5], groups[0].Part(0).F32[5]+groups[1].Part(0).F32[5]; got != want {
		t.Errorf("sum %g, want %g", got, want)
	}
}

func TestAJoiningRankTakesWhatIsOfferedForItsWindow(t *testing.T) {
	groups, members := ring(t, 2, 1)
	var given, taken [stateSlots]kernels.Tensor
	for i := range given {
		given[i] = kernels.Host(1, elements, make([]float32, elements))
		taken[i] = kernels.Host(1, elements, make([]float32, elements))
		fill(given[i], float64(i))
	}
	if _, err := groups[1].Fetch(t.Context(), members[0], Round{Gen: 1, Window: 4}, taken); !errors.Is(err, mem.ErrStale) {
		t.Errorf("nothing is offered: %v", err)
	}
	if err := groups[0].Offer(Round{Gen: 1, Window: 4}, given, []byte("state")); err != nil {
		t.Fatal(err)
	}
	note, err := groups[1].Fetch(t.Context(), members[0], Round{Gen: 1, Window: 4}, taken)
	if err != nil || string(note) != "state" {
		t.Fatalf("note %q, %v", note, err)
	}
	for i := range given {
		if !slices.Equal(given[i].F32, taken[i].F32) {
			t.Errorf("tensor %d differs", i)
		}
	}
	if _, err := groups[1].Fetch(t.Context(), members[0], Round{Gen: 1, Window: 5}, taken); !errors.Is(err, mem.ErrStale) {
		t.Errorf("another window: %v", err)
	}
	gone := policy.Member{Rank: "draft-1", Incarnation: 7}
	if _, err := groups[1].Fetch(t.Context(), gone, Round{Gen: 1, Window: 4}, taken); !errors.Is(err, mem.ErrStale) {
		t.Errorf("a member that is gone: %v", err)
	}
}

func TestNotesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := make([]float32, noteFloats)
		note := rapid.SliceOfN(rapid.Byte(), 0, 4*(noteFloats-1)).Draw(t, "note")
		if err := writeNote(room, note); err != nil {
			t.Fatal(err)
		}
		back, err := readNote(room)
		if err != nil || !slices.Equal(back, note) {
			t.Fatalf("%x came back as %x, %v", note, back, err)
		}
	})
	room := make([]float32, noteFloats)
	if writeNote(room, make([]byte, 4*noteFloats)) == nil {
		t.Error("a note that does not fit was written")
	}
	room[0] = math.Float32frombits(1 << 30)
	if _, err := readNote(room); err == nil {
		t.Error("a forged length was believed")
	}
}
