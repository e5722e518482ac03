package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/broker"
	"penstock/broker/brokertest"
	"penstock/schema"
)

func TestKilledServerKeepsWhatItConfirmed(t *testing.T) {
	for _, sync := range []string{"default", "always"} {
		t.Run(sync, func(t *testing.T) { killWhilePublishing(t, brokertest.StartProcess(t, sync)) })
	}
}

func killWhilePublishing(t *testing.T, p *brokertest.Process) {
	c := p.Conn("batch", broker.Options{OnError: func(error) {}})
	const n, kills = 600, 3
	brokertest.Open(t, c, 1, n, "b64")
	published := make(chan uint32, n)
	failed := make(chan error, 1)
	go func() {
		defer close(published)
		pub := broker.NewPublisher(c, broker.Fwd)
		for i := range uint32(n) {
			r := root(1, 0, i, "b64")
			if err := pub.Publish(brokertest.Context(t), r.Bucket, r, id(r)); err != nil {
				failed <- err
				return
			}
			published <- i
		}
	}()
	for kill := range kills {
		brokertest.Until(t, "some roots to be confirmed", func() bool { return len(published) > (kill+1)*n/(kills+2) })
		p.Kill()
		p.Restart()
	}
	want := make(map[uint32]bool, n)
	for i := range published {
		want[i] = true
	}
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
	got := make(map[uint32]bool, n)
	pull := roots(t, c, 1, "b64")
	for len(got) < n {
		d := brokertest.Fetch(t, pull)
		if got[d.Record.Index] {
			t.Errorf("batch %d came twice", d.Record.Index)
		}
		got[d.Record.Index] = true
		if err := d.Ack(brokertest.Context(t)); err != nil {
			t.Fatal(err)
		}
	}
	if len(want) != n {
		t.Errorf("%d roots confirmed, want %d", len(want), n)
	}
	brokertest.WaitCredit(t, c, 1, "b64", func(a broker.Credit) bool { return a.Open == 0 && a.Queued == 0 })
}

func TestSourceResumesAfterRestart(t *testing.T) {
	p := brokertest.StartProcess(t, "default")
	c := p.Conn("pack", broker.Options{OnError: func(error) {}})
	ctx := brokertest.Context(t)
	brokertest.Open(t, c, 1, 1, "b64")
	src, err := c.Hops(ctx, broker.Pack, 1)
	if err != nil {
		t.Fatal(err)
	}
	pub := broker.NewPublisher(p.Conn("target", broker.Options{OnError: func(error) {}}), broker.Pack)
	for i := range uint32(3) {
		got := make(chan schema.Hop, 1)
		go func() {
			d, err := src.Next(ctx)
			if err == nil {
				err = d.Ack(ctx)
			}
			if err != nil {
				t.Error(err)
				close(got)
				return
			}
			got <- d.Record
		}()
		brokertest.Until(t, "a parked pull", func() bool {
			a, err := c.HopCredit(ctx, broker.Pack, 1)
			return err == nil && a.Waiting == 1
		})
		p.Kill()
		p.Restart()
		if err := pub.Publish(ctx, "b64", schema.Hop{Batch: batch(1, 0, i)}, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if hop := <-got; hop.Index != i {
			t.Fatalf("got %d, want %d", hop.Index, i)
		}
		t.Log("resumed in", time.Since(start))
	}
}

func TestLostAndDoubledMessages(t *testing.T) {
	b := brokertest.Start(t)
	var f brokertest.Faults
	// The first root and the first acknowledgement meet them all, one after the other.
	f.Next(3, broker.OpPublish, "ps.fwd.", broker.LoseReply)
	f.Next(2, broker.OpPublish, "ps.fwd.", broker.LoseRequest)
	f.Next(1, broker.OpPublish, "ps.fwd.", broker.Twice)
	f.Next(1, broker.OpAck, "", broker.LoseRequest)
	f.Next(1, broker.OpAck, "", broker.LoseReply)
	f.Next(1, broker.OpAck, "", broker.Twice)
	c := b.Conn("test", broker.Options{Fault: f.Fault, OnError: func(error) {}})
	brokertest.Open(t, c, 1, 8, "b64")
	for i := range uint32(4) {
		publish(t, c, root(1, 0, i, "b64"))
	}
	index := func(r schema.Root) uint32 { return r.Index }
	brokertest.ExpectOnly(t, c, 1, "b64", roots(t, c, 1, "b64"), index, 0, 0, 1, 2, 3)
	if p, a := f.Hits(broker.OpPublish), f.Hits(broker.OpAck); p != 6 || a != 3 {
		t.Errorf("%d publishes and %d acknowledgements met a fault, want 6 and 3", p, a)
	}
}

func TestDelayedAcknowledgement(t *testing.T) {
	b := brokertest.Start(t)
	var f brokertest.Faults
	release := make(chan struct{})
	f.Delay(1, broker.OpAck, "", release)
	c := b.Conn("test", broker.Options{Fault: f.Fault})
	brokertest.Open(t, c, 1, 1, "b64")
	publish(t, c, root(1, 0, 0, "b64"))
	p := roots(t, c, 1, "b64")
	d := brokertest.Fetch(t, p)
	done := make(chan error, 1)
	go func() { done <- d.Ack(brokertest.Context(t)) }()
	again := brokertest.Fetch(t, p) // AckWait is over before the acknowledgement leaves
	if again.Record != d.Record || !again.Redelivered {
		t.Fatalf("got %+v again: %v", again.Record, again.Redelivered)
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	brokertest.WaitCredit(t, c, 1, "b64", func(a broker.Credit) bool { return a.Open == 0 })
}

// TestPullOutlivesItsServer freezes a server for longer than a request may take, then kills it. A target must not end for
// that, and one that asked meanwhile must not go on holding what the server gave it late.
func TestPullOutlivesItsServer(t *testing.T) {
	b := brokertest.StartProcess(t, "always")
	c := b.Conn("target", broker.Options{})
	ctx := brokertest.Context(t)
	brokertest.Open(t, c, 1, 4, "b64")
	p := roots(t, c, 1, "b64")
	for i := range uint32(3) {
		publish(t, c, root(1, 0, i, "b64"))
	}
	brokertest.WaitCredit(t, c, 1, "b64", func(a broker.Credit) bool { return a.Queued == 3 })
	b.Freeze()
	if d, err := p.FetchNoWait(ctx); !errors.Is(err, broker.ErrEmpty) {
		t.Fatalf("from a frozen server: %+v, %v", d, err)
	}
	b.Thaw()
	for i := range uint32(3) {
		d := brokertest.Fetch(t, p)
		if d.Record.Index != i {
			t.Errorf("got batch %d, want %d", d.Record.Index, i)
		}
		for range 8 {
			credit, err := c.Credit(ctx, 1, "b64")
			if err != nil || i > 0 && credit.Open != 1 { // the first may come with what was asked for before
				t.Fatalf("batch %d is held, and %d are open, %v", i, credit.Open, err)
			}
		}
		if err := d.Ack(ctx); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, c, root(1, 0, 3, "b64"))
	b.Kill()
	for range 3 {
		if d, err := p.FetchNoWait(ctx); !errors.Is(err, broker.ErrEmpty) {
			t.Fatalf("from a dead server: %+v, %v", d, err)
		}
	}
	b.Restart()
	if d := brokertest.Fetch(t, p); d.Record.Index != 3 {
		t.Errorf("got batch %d after the restart", d.Record.Index)
	}
}

func TestPoisonIsTerminatedAndReported(t *testing.T) {
	b := brokertest.Start(t)
	var mu sync.Mutex
	var reports []string
	c := b.Conn("test", broker.Options{OnError: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		reports = append(reports, err.Error())
	}})
	ctx := brokertest.Context(t)
	brokertest.Open(t, c, 1, 1, "b64") // one poisoned record in the way would be enough to block it
	nc := raw(t, b.URL)
	hop, err := schema.Encode(schema.Hop{Batch: batch(1, 0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	for _, poison := range [][]byte{nil, []byte("rubbish"), hop} {
		if _, err := nc.RequestWithContext(ctx, "ps.fwd.b64", poison); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, c, root(1, 0, 7, "b64"))
	brokertest.ExpectOnly(t, c, 1, "b64", roots(t, c, 1, "b64"), func(r schema.Root) uint32 { return r.Index }, 7)
	mu.Lock()
	defer mu.Unlock()
	n := 0
	for _, r := range reports {
		if strings.Contains(r, "terminated") && strings.Contains(r, "ps.fwd.b64") {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d of 3 poisoned records reported: %q", n, reports)
	}
}

func TestSettleFromElsewhere(t *testing.T) {
	b := brokertest.Start(t)
	holder, other := b.Conn("target", broker.Options{}), b.Conn("draft", broker.Options{})
	ctx := brokertest.Context(t)
	brokertest.Open(t, holder, 1, 1, "b64")
	publish(t, holder, root(1, 0, 0, "b64"))
	p := roots(t, holder, 1, "b64")
	d := brokertest.Fetch(t, p)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); { // longer than AckWait
		if err := other.ProgressRoot(d.AckSubject); err != nil {
			t.Fatal(err)
		}
		if again, err := p.FetchNoWait(ctx); !errors.Is(err, broker.ErrEmpty) {
			t.Fatalf("marked as in progress, and yet: %+v, %v", again, err)
		}
	}
	if err := other.NakRoot(ctx, d.AckSubject, 0); err != nil {
		t.Fatal(err)
	}
	d = brokertest.Fetch(t, p)
	if err := other.AckRoot(ctx, d.AckSubject); err != nil {
		t.Fatal(err)
	}
	if err := other.AckRoot(ctx, d.AckSubject); err != nil {
		t.Errorf("once more: %v", err)
	}
	brokertest.WaitCredit(t, other, 1, "b64", func(a broker.Credit) bool { return a.Open == 0 })
	for _, bad := range []string{"", "ps.fwd.b64", "$JS.ACK.PS_FWD.>", "$JS.ACK.a b", "$JS.API.STREAM.DELETE.PS_FWD"} {
		if err := other.AckRoot(ctx, bad); err == nil {
			t.Errorf("acknowledged %q", bad)
		}
		if err := other.ProgressRoot(bad); err == nil {
			t.Errorf("marked %q", bad)
		}
	}
}

func TestDialWaitsForTheServer(t *testing.T) {
	p := brokertest.StartProcess(t, "default")
	p.Kill()
	ctx, cancel := context.WithTimeout(brokertest.Context(t), 50*time.Millisecond)
	defer cancel()
	if _, err := broker.Dial(ctx, p.URL, "test", broker.Options{}); err == nil || !strings.Contains(err.Error(), p.URL) {
		t.Fatalf("no server: got %v, want an error that names %s", err, p.URL)
	}
	waiting := make(chan error, 1)
	done := make(chan error, 1)
	go func() {
		c, err := broker.Dial(brokertest.Context(t), p.URL, "test", broker.Options{OnError: func(err error) {
			select {
			case waiting <- err:
			default:
			}
		}})
		if err == nil {
			c.Close()
		}
		done <- err
	}()
	if err := <-waiting; !strings.Contains(err.Error(), p.URL) {
		t.Errorf("told %v, want what is waited for", err)
	}
	p.Restart()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestDialRefuses(t *testing.T) {
	plain := brokertest.StartWithoutJetStream(t).URL
	for url, want := range map[string]string{
		"http://127.0.0.1:1": "http://127.0.0.1:1", "nats://127.0.0.1:0x": "cannot be read", "": "nats://", "nats://a,:4222": ":4222", plain: "-js",
	} {
		if c, err := broker.Dial(brokertest.Context(t), url, "test", broker.Options{}); err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v, %v; want an error that says %q", url, c, err, want)
		}
	}
	if _, err := broker.Dial(brokertest.Context(t), plain, "a name", broker.Options{}); err == nil {
		t.Error("dialled by a name that cannot be part of an inbox")
	}
}
