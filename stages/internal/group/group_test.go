package group

import (
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"penstock/broker"
	"penstock/broker/brokertest"
	"penstock/broker/policy"
	"penstock/broker/slots"
	"penstock/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func member(rank string, inc uint64) policy.Member {
	return policy.Member{Rank: rank, Incarnation: inc}
}

func TestWith(t *testing.T) {
	a, b, c := member("draft-1", 1), member("draft-2", 2), member("draft-10", 3)
	again := member("draft-2", 9)
	for _, x := range []struct{ ms, more, want []policy.Member }{
		{nil, []policy.Member{c, a}, []policy.Member{a, c}},
		{[]policy.Member{a, c}, []policy.Member{b}, []policy.Member{a, b, c}},
		{[]policy.Member{a, b}, []policy.Member{again}, []policy.Member{a, again}},
		{[]policy.Member{a, b}, []policy.Member{b, b}, []policy.Member{a, b}}, // or its part would count twice
	} {
		if got := With(x.ms, x.more...); !slices.Equal(got, x.want) {
			t.Errorf("%v with %v: %v", x.ms, x.more, got)
		}
	}
}

// TestBury has one of two ranks die with a root in its sum and a hop on its way to it; AckWait is far away.
func TestBury(t *testing.T) {
	ctx := brokertest.Context(t)
	conn := brokertest.Start(t).Conn("up", broker.Options{})
	brokertest.Open(t, conn, 1, 4, "b64")
	ledger, b := conn.Ledger(), schema.Batch{Run: "r", Gen: 1, Bucket: "b64"}
	if err := broker.NewPublisher(conn, broker.Fwd).Publish(ctx, "b64", schema.Root{Batch: b}, "root"); err != nil {
		t.Fatal(err)
	}
	if err := broker.NewPublisher(conn, broker.Train).Publish(ctx, "b64", schema.Hop{Batch: b}, "hop"); err != nil {
		t.Fatal(err)
	}
	roots, err := conn.Roots(ctx, 1, "b64")
	if err != nil {
		t.Fatal(err)
	}
	hops, err := conn.Hops(ctx, broker.Train, 1)
	if err != nil {
		t.Fatal(err)
	}
	root := brokertest.Fetch(t, roots)
	if _, err := hops.Next(ctx); err != nil {
		t.Fatal(err)
	}
	journal := func(rank string) string { return filepath.Join(t.TempDir(), rank) }
	path := journal("draft-2")
	j, err := slots.CreateJournal(path, "draft-2", 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	list, err := slots.New(slots.Config{Pool: "draft-2", Incarnation: 2, Slots: 4, Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	list.Take(schema.Batch{}, root.AckSubject, func(_ uint32, free int) bool { return true })

	v, err := Read(ctx, ledger)
	if err != nil {
		t.Fatal(err)
	}
	if left, n, err := Bury(ctx, conn, v, journal, func(policy.Member) bool { return true }); left != 0 || n != 0 || err != nil {
		t.Errorf("nobody is a member: %d, %d, %v", left, n, err)
	}
	both := []policy.Member{member("draft-1", 1), member("draft-2", 2)}
	if err := Change(ctx, ledger, v, func([]policy.Member) []policy.Member { return both }); err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.Commit(ctx, schema.Commit{Run: "r", Gen: 1, RankEpoch: 1}, v.Lineage().Control); err != nil {
		t.Fatal(err)
	}
	comeAgain := func() {
		t.Helper()
		if again := brokertest.Fetch(t, roots); again.Seq != root.Seq {
			t.Errorf("root %d came, want %d", again.Seq, root.Seq)
		}
		if _, err := hops.Next(ctx); err != nil {
			t.Errorf("the hop does not come again: %v", err)
		}
	}
	// v has not read the commit: it loses, reads, and writes on the next window.
	left, n, err := Bury(ctx, conn, v, func(string) string { return path }, func(m policy.Member) bool { return m.Rank == "draft-2" })
	if left != 1 || n != 1 || err != nil {
		t.Errorf("buried draft-2: %d left, %d batches, %v", left, n, err)
	}
	if l := v.Lineage(); l.Next != 1 || l.Epoch != 2 || l.Control == 0 || !slices.Equal(l.Members, both[:1]) {
		t.Errorf("lineage %+v", l)
	}
	comeAgain()
	// Who has put it out may have died before it handed that back.
	if n, err := BuryRank(ctx, conn, v, path, "draft-2"); n != 1 || err != nil {
		t.Errorf("draft-2 once more: %d, %v", n, err)
	}
	comeAgain()
	if n, err := BuryRank(ctx, conn, v, path, "draft-2"); n != 0 || err != nil {
		t.Errorf("draft-2 a third time: %d, %v", n, err)
	}
	if err := hops.Close(ctx); err != nil {
		t.Error(err)
	}
	if j, err = slots.CreateJournal(path, "draft-2", 2, 4); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if n, err := HandBack(ctx, conn, path, 7); n != 0 || err != nil {
		t.Errorf("journal of another incarnation: %d, %v", n, err)
	}
}
