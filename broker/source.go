package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"penstock/schema"
)

// Puller takes from one consumer what is there now. A target has one per bucket and asks them in the order it
// chose, so that it never holds the head of a bucket that it does not work on.
type Puller[T schema.Record] struct{ p *pull }

// Source waits for the records of one consumer. Of work it asks for one at a time, and only while Next is called, so
// that a record goes to whoever is free.
type Source[T schema.Record] struct{ p *pull }

// Roots opens the roots of a bucket. A generation that is not open gives [ErrGone].
func (c *Conn) Roots(ctx context.Context, gen uint32, bucket string) (*Puller[schema.Root], error) {
	p, err := c.open(ctx, Fwd.Stream, fwdName(gen, bucket), 1)
	if err != nil {
		return nil, err
	}
	return &Puller[schema.Root]{p}, nil
}

// Hops opens the hops of all buckets on [Pack] or [Train]. A generation that is not open gives [ErrGone].
func (c *Conn) Hops(ctx context.Context, e Edge[schema.Hop], gen uint32) (*Source[schema.Hop], error) {
	p, err := c.open(ctx, e.Stream, hopName(e, gen), 1)
	if err != nil {
		return nil, err
	}
	return &Source[schema.Hop]{p}, nil
}

// Releases opens the releases of a pool for its owner, making the pool's consumer if it is not there.
func (c *Conn) Releases(ctx context.Context, pool string, ackWait time.Duration) (*Source[schema.Release], error) {
	if err := CheckToken("pool", pool); err != nil {
		return nil, err
	}
	cfg := relConsumer(pool, ackWait)
	err := c.retry(ctx, "make consumer "+cfg.Durable, func(ctx context.Context) error {
		_, err := c.js.CreateOrUpdateConsumer(ctx, Rel.Stream, cfg)
		return err
	})
	if err != nil {
		return nil, err
	}
	p, err := c.open(ctx, Rel.Stream, cfg.Durable, relBatch)
	if err != nil {
		return nil, err
	}
	return &Source[schema.Release]{p}, nil
}

func (c *Conn) open(ctx context.Context, stream, consumer string, batch int) (*pull, error) {
	p, err := newPull(c, stream, consumer, batch, true)
	if err != nil {
		return nil, err
	}
	if err := p.exists(ctx); err != nil {
		c.denials.done(p.asks)
		_ = p.sub.Unsubscribe()
		return nil, err
	}
	return p, nil
}

// FetchNoWait returns one record, or [ErrEmpty] when none is stored, the bucket's credit is used up or no server answers
// now, or [ErrGone]. To say that there is none takes some milliseconds, and with a silent server some seconds.
func (p *Puller[T]) FetchNoWait(ctx context.Context) (*Delivery[T], error) {
	for {
		m, err := p.p.take(ctx)
		if ctx.Err() == nil && isTransient(err) {
			return nil, ErrEmpty
		}
		if err != nil {
			return nil, err
		}
		if d, ok := deliver[T](ctx, p.p.c, m); ok {
			return d, nil
		}
	}
}

// Spent asks whether the bucket has records that its credit holds back.
func (p *Puller[T]) Spent(ctx context.Context) (bool, error) {
	info, err := p.p.c.consumerInfo(ctx, p.p.stream, p.p.consumer)
	if err != nil {
		return false, err
	}
	a := account(info)
	return a.Queued > 0 && a.Limit > 0 && a.Open >= a.Limit, nil
}

// Close hands back what arrived too late to be returned. It comes after the last FetchNoWait has returned.
func (p *Puller[T]) Close(ctx context.Context) error { return p.p.handBack(ctx) }

// Next waits for a record. A call that ends with ctx loses nothing: the record that it waited for, if it still
// comes, is returned by the next call or handed back by Close. [ErrGone] ends the source.
func (s *Source[T]) Next(ctx context.Context) (*Delivery[T], error) {
	for {
		m, err := s.p.next(ctx)
		if err != nil {
			return nil, err
		}
		if d, ok := deliver[T](ctx, s.p.c, m); ok {
			return d, nil
		}
	}
}

// Unsettled asks how many records there are that nobody has settled, handed out or not.
func (s *Source[T]) Unsettled(ctx context.Context) (int, error) {
	info, err := s.p.c.consumerInfo(ctx, s.p.stream, s.p.consumer)
	if err != nil {
		return 0, err
	}
	a := account(info)
	return int(a.Queued) + a.Open, nil
}

// Close hands back what arrived too late to be returned. It comes after the last Next has returned.
func (s *Source[T]) Close(ctx context.Context) error { return s.p.handBack(ctx) }

func (p *pull) handBack(ctx context.Context) error {
	var failed error
	p.close(ctx, func(m *nats.Msg) {
		if err := p.c.NakRoot(ctx, m.Reply, 0); err != nil && failed == nil {
			failed = fmt.Errorf("hand back: %w", err)
		}
	})
	return failed
}
