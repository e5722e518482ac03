package broker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"penstock/broker"
	"penstock/broker/brokertest"
	"penstock/schema"
)

func TestBoard(t *testing.T) {
	p := brokertest.StartProcess(t, "default")
	c := p.Conn("test", broker.Options{OnError: func(error) {}})
	ctx := brokertest.Context(t)
	b := c.Board()
	if _, found, err := b.Get(ctx, "bucket.b64"); err != nil || found {
		t.Fatalf("empty board: found %v, %v", found, err)
	}
	if hints, err := b.List(ctx, ">"); err != nil || len(hints) != 0 {
		t.Fatalf("empty board: %v, %v", hints, err)
	}
	put := func(bucket string, credit uint32) {
		t.Helper()
		if err := b.Put(ctx, "bucket."+bucket, schema.BucketState{Bucket: bucket, Credit: credit}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint32(5) {
		put("b64", i)
		put("b128", 10+i)
	}
	if h, found, err := b.Get(ctx, "bucket.b64"); err != nil || !found || h.Record.(schema.BucketState).Credit != 4 {
		t.Fatalf("last hint: %+v, %v, %v", h, found, err)
	}
	if err := b.Put(ctx, "progress", schema.Progress{Windows: 3}); err != nil {
		t.Fatal(err)
	}
	if hints, err := b.List(ctx, "bucket.*"); err != nil || len(hints) != 2 || hints[0].Key != "bucket.b64" || hints[1].Key != "bucket.b128" {
		t.Fatalf("list: %+v, %v", hints, err)
	}

	seen := make(chan string, 64)
	done := make(chan error, 1)
	watching, stop := context.WithCancelCause(ctx)
	go func() {
		done <- b.Watch(watching, "bucket.*", func(h broker.Hint) error {
			seen <- fmt.Sprint(h.Key, " ", h.Record.(schema.BucketState).Credit)
			return nil
		})
	}()
	expect := func(want string) {
		t.Helper()
		if got := <-seen; got != want {
			t.Fatalf("watched %q, want %q", got, want)
		}
	}
	expect("bucket.b64 4")
	expect("bucket.b128 14")
	put("b64", 5)
	expect("bucket.b64 5")
	p.Kill()
	p.Restart()
	put("b128", 15)
	expect("bucket.b128 15")
	why := errors.New("enough")
	stop(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("watch: %v, want its context's cause", err)
	}

	if err := b.Remove(ctx, "bucket.b64"); err != nil {
		t.Fatal(err)
	}
	if _, found, err := b.Get(ctx, "bucket.b64"); err != nil || found {
		t.Errorf("removed hint: found %v, %v", found, err)
	}
}
