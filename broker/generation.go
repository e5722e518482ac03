package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"penstock/schema"
)

// BucketCredit is a bucket's pull limit when a generation opens, and the most that it will ever be.
type BucketCredit struct {
	Bucket          string
	Credit, Ceiling int
}

// Generation is what OpenGeneration needs to know.
type Generation struct {
	schema.Gen
	Buckets []BucketCredit
	AckWait time.Duration // after which a message whose holder has gone silent is delivered again
}

func (g Generation) check() error {
	if g.Gen.Gen == 0 {
		return errors.New("generation 0 cannot be opened: they count from 1")
	}
	if len(g.Buckets) == 0 || g.AckWait <= 0 {
		return fmt.Errorf("generation %d: buckets and a positive ack wait must be given", g.Gen.Gen)
	}
	for _, b := range g.Buckets {
		if err := CheckToken("bucket", b.Bucket); err != nil {
			return err
		}
		if b.Credit < 1 || b.Ceiling < b.Credit {
			return fmt.Errorf("bucket %s: credit %d of at most %d", b.Bucket, b.Credit, b.Ceiling)
		}
	}
	return nil
}

// OpenGeneration makes g the generation of the work queues: it writes the ledger's record, deletes the consumers of
// older generations, purges the queues and makes new consumers, in that order. A crash anywhere in between is
// repaired by calling it again with the same g; once it has succeeded, calling it again does nothing.
//
// The caller holds the lock of the run directory and has chosen a number above every earlier one. [ErrLost] says that
// somebody else opened that number, [ErrStale] that a later one is open.
//
// Acknowledgements of an older generation reach a consumer that is gone and settle nothing. A record that a
// straggler publishes after the purge carries its generation: whoever pulls it drops it.
func (c *Conn) OpenGeneration(ctx context.Context, g Generation) error {
	if err := g.check(); err != nil {
		return err
	}
	if _, err := c.Ledger().Gen(ctx, g.Gen); err != nil {
		return fmt.Errorf("open generation %d: %w", g.Gen.Gen, err)
	}
	open, err := c.GenerationOpen(ctx, g.Gen.Gen)
	if err != nil || open {
		return err
	}
	steps := []func(context.Context) error{
		func(ctx context.Context) error { return c.dropConsumers(ctx, g.Gen.Gen) },
		c.purgeQueues,
		func(ctx context.Context) error { return c.limitRoots(ctx, g.Buckets) },
		func(ctx context.Context) error { return c.makeConsumers(ctx, g) },
	}
	for _, step := range steps {
		if err := c.retry(ctx, fmt.Sprintf("open generation %d", g.Gen.Gen), step); err != nil {
			return err
		}
	}
	return nil
}

// GenerationOpen reports whether gen was opened completely: its last consumer exists. Nothing of gen may be
// published before, because the purge would take it.
func (c *Conn) GenerationOpen(ctx context.Context, gen uint32) (bool, error) {
	_, err := c.consumerInfo(ctx, Train.Stream, hopName(Train, gen))
	if errors.Is(err, ErrGone) {
		return false, nil
	}
	return err == nil, err
}

// WaitGeneration waits until gen is open.
func (c *Conn) WaitGeneration(ctx context.Context, gen uint32) error {
	for wait := minWait; ; wait = min(2*wait, maxWait) {
		open, err := c.GenerationOpen(ctx, gen)
		if err != nil || open {
			return err
		}
		if sleep(ctx, wait) != nil {
			return fmt.Errorf("generation %d is not open: %w", gen, context.Cause(ctx))
		}
	}
}

// dropConsumers deletes every consumer of the batch queues: two of one subject cannot be at the same time.
func (c *Conn) dropConsumers(ctx context.Context, gen uint32) error {
	for _, stream := range []string{Fwd.Stream, Pack.Stream, Train.Stream} {
		s, err := c.stream(ctx, stream)
		if err != nil {
			return err
		}
		names := s.ConsumerNames(ctx)
		var drop []string
		for name := range names.Name() {
			if consumerGen(name) > gen {
				return fmt.Errorf("%w: consumer %s", ErrStale, name)
			}
			drop = append(drop, name)
		}
		if err := names.Err(); err != nil {
			return fmt.Errorf("list consumers of %s: %w", stream, err)
		}
		for _, name := range drop {
			if err := s.DeleteConsumer(ctx, name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
				return fmt.Errorf("delete consumer %s: %w", name, err)
			}
		}
	}
	return nil
}

// purgeQueues empties all four queues: the owners of slots free them all, so old releases mean nothing either.
func (c *Conn) purgeQueues(ctx context.Context) error {
	for _, stream := range []string{Fwd.Stream, Pack.Stream, Train.Stream, Rel.Stream} {
		s, err := c.stream(ctx, stream)
		if err != nil {
			return err
		}
		if err := s.Purge(ctx); err != nil {
			return fmt.Errorf("purge %s: %w", stream, err)
		}
	}
	return nil
}

// limitRoots sets the tripwire behind the builder's rule. Roots of a committed window may still be there while the
// next one is published, hence twice the ceiling; the stream has one limit for all of its subjects.
func (c *Conn) limitRoots(ctx context.Context, buckets []BucketCredit) error {
	cfg := streams[0]
	cfg.MaxMsgsPerSubject = 0
	for _, b := range buckets {
		cfg.MaxMsgsPerSubject = max(cfg.MaxMsgsPerSubject, 2*int64(b.Ceiling))
	}
	if _, err := c.js.UpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("limit %s to %d messages a subject: %w", cfg.Name, cfg.MaxMsgsPerSubject, err)
	}
	return nil
}

// makeConsumers makes those of the roots first and that of the trainer last: see GenerationOpen.
func (c *Conn) makeConsumers(ctx context.Context, g Generation) error {
	gen := g.Gen.Gen
	for _, b := range g.Buckets {
		if _, err := c.js.CreateOrUpdateConsumer(ctx, Fwd.Stream, fwdConsumer(gen, b.Bucket, b.Credit, g.AckWait)); err != nil {
			return fmt.Errorf("make consumer %s: %w", fwdName(gen, b.Bucket), err)
		}
	}
	for _, e := range []Edge[schema.Hop]{Pack, Train} {
		if _, err := c.js.CreateOrUpdateConsumer(ctx, e.Stream, hopConsumer(e, gen, g.AckWait)); err != nil {
			return fmt.Errorf("make consumer %s: %w", hopName(e, gen), err)
		}
	}
	return nil
}
