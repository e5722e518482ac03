package worker

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/broker/slots"
	"penstock/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func hop(window, index uint32) Hop {
	return &broker.Delivery[schema.Hop]{
		Record:     schema.Hop{Batch: schema.Batch{Gen: 1, Window: window, Index: index}},
		AckSubject: "$JS.ACK." + string(rune('a'+index)),
	}
}

func TestParkKeepsOrderAndMarks(t *testing.T) {
	k := newKeeper(func(string) error { return nil }, time.Hour)
	p := NewPark(k)
	for _, h := range []Hop{hop(2, 7), hop(1, 3), hop(2, 5), hop(1, 4)} {
		p.Add(h)
	}
	select {
	case <-p.Came():
	default:
		t.Error("adding wakes nobody")
	}
	later, ok := p.Take(func(h schema.Hop) bool { return h.Window == 2 })
	if !ok || later.Record.Index != 5 {
		t.Errorf("first of window 2: %v", later.Record.Index)
	}
	p.Return(later)
	var got []uint32
	for p.Len() > 0 {
		h, _ := p.Take(func(schema.Hop) bool { return true })
		got = append(got, h.Record.Index)
	}
	if !slices.Equal(got, []uint32{3, 4, 5, 7}) {
		t.Errorf("taken in order %v", got)
	}
	if len(k.all()) != 4 {
		t.Errorf("%d marks, want those of the 4 taken hops", len(k.all()))
	}
	p.Add(hop(3, 9))
	p.Leave()
	if len(k.all()) != 4 || p.Len() != 0 {
		t.Errorf("after leaving: %d marks, %d parked", len(k.all()), p.Len())
	}
}

func TestKeeperMarksWhatIsHeld(t *testing.T) {
	marks := make(chan string)
	k := newKeeper(func(s string) error { marks <- s; return errors.New("lost") }, time.Millisecond)
	k.Hold("a")
	k.Hold("a")
	k.Hold("b")
	k.Drop("b")
	k.Drop("a")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.run(ctx) }()
	for range 3 {
		if s := <-marks; s != "a" {
			t.Errorf("marked %q", s)
		}
	}
	k.Drop("a")
	cancel()
	for {
		select {
		case <-marks:
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
			return
		}
	}
}

func TestSettlerDrainsAndFails(t *testing.T) {
	g, ctx := errgroup.WithContext(t.Context())
	s := NewSettler()
	s.Start(ctx, g)
	var n atomic.Int32
	for range 100 {
		if err := s.Do(ctx, func(context.Context) error { n.Add(1); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Drain(ctx); err != nil || n.Load() != 100 {
		t.Errorf("drained with %v after %d of 100", err, n.Load())
	}
	broken := errors.New("broken")
	if err := s.Do(ctx, func(context.Context) error { return broken }); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); !errors.Is(err, broken) {
		t.Errorf("group ended with %v", err)
	}
}

func TestFollowerWaitsForWhatTheLedgerSays(t *testing.T) {
	f := NewFollower()
	got := make(chan error, 1)
	go func() {
		got <- f.Wait(t.Context(), func(l *policy.Lineage) bool { return l.Gen == 1 && l.Next == 1 })
	}()
	f.Apply(broker.Entry{Seq: 1, Record: schema.Gen{Gen: 1}})
	f.Apply(broker.Entry{Seq: 2, Record: schema.Commit{Gen: 1, Window: 0}})
	f.Apply(broker.Entry{Seq: 2, Record: schema.Commit{Gen: 1, Window: 0}})
	if err := <-got; err != nil {
		t.Error(err)
	}
	if gen, next := f.Front(); gen != 1 || next != 1 {
		t.Errorf("front %d, %d", gen, next)
	}
	cause := errors.New("cause")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := f.Wait(ctx, func(*policy.Lineage) bool { return false }); !errors.Is(err, cause) {
		t.Errorf("ended with %v", err)
	}
}

func TestLatencyQuantiles(t *testing.T) {
	var l Latency
	if p50, p99 := l.Quantiles(); p50 != 0 || p99 != 0 {
		t.Error("quantiles of nothing")
	}
	for i := range 200 {
		l.Add(time.Now().Add(-time.Duration(i) * time.Second).UnixNano())
	}
	p50, p99 := l.Quantiles()
	if p50.Round(time.Second) != 100*time.Second || p99.Round(time.Second) != 198*time.Second {
		t.Errorf("p50 %v, p99 %v", p50, p99)
	}
}

// TestMarkOfAFormerUseEndsAlone ends the mark of a use whose slot is in use again.
func TestMarkOfAFormerUseEndsAlone(t *testing.T) {
	k := newKeeper(func(string) error { return nil }, time.Hour)
	p := &Pool{w: &Worker{Keeper: k}, held: map[mark]string{{0, 1}: "former", {0, 2}: "present"}, freed: make(chan struct{})}
	k.Hold("former")
	k.Hold("present")
	p.drop([]slots.Use{{Slot: 0, Generation: 1}})
	if held := k.all(); !slices.Equal(held, []string{"present"}) {
		t.Errorf("held: %v", held)
	}
}
