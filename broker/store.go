package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrStore: the broker came back with another store than the one that was read: an empty or an older one. What was
// concluded from the ledger does not hold any more; a new generation has to open.
var ErrStore = errors.New("the broker's store is not the one that was read")

// sameStore returns ErrStore if the message that a reader has read last is not in the stream. A hint may have been
// replaced since, so there only a stream that ends before it tells.
func (c *Conn) sameStore(ctx context.Context, stream string, at cursor) error {
	if at.seq == 0 {
		return nil
	}
	return c.retry(ctx, "compare "+stream+" with what was read", func(ctx context.Context) error {
		s, err := c.stream(ctx, stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("%w: it has no stream %s", ErrStore, stream)
		}
		if err != nil {
			return err
		}
		if end := s.CachedInfo().State.LastSeq; end < at.seq {
			return fmt.Errorf("%w: %s ends at %d, and %d was read", ErrStore, stream, end, at.seq)
		}
		if at.last {
			return nil
		}
		m, err := s.GetMsg(ctx, at.seq)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return fmt.Errorf("%w: record %d of %s is gone", ErrStore, at.seq, stream)
		case err != nil:
			return err
		case m.Subject != at.subject || !m.Time.Equal(at.stored):
			return fmt.Errorf("%w: record %d of %s is another one", ErrStore, at.seq, stream)
		}
		return nil
	})
}

// mendConsumers resets the consumers of work queues that are ahead of their stream: after a power failure their state can be
// newer than the messages, and what is stored would never be delivered. Every stored record must be queued or open.
func (c *Conn) mendConsumers(ctx context.Context) error {
	for _, cfg := range streams {
		if cfg.Retention != jetstream.WorkQueuePolicy {
			continue
		}
		err := c.retry(ctx, "compare the consumers of "+cfg.Name+" with it", func(ctx context.Context) error { return c.mend(ctx, cfg.Name) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Conn) mend(ctx context.Context, stream string) error {
	s, err := c.stream(ctx, stream)
	if err != nil {
		return err
	}
	names := s.ConsumerNames(ctx)
	for name := range names.Name() {
		if err := c.mendOne(ctx, s, name); err != nil {
			return err
		}
	}
	return names.Err()
}

func (c *Conn) mendOne(ctx context.Context, s jetstream.Stream, name string) error {
	cons, err := s.Consumer(ctx, name)
	if err != nil {
		return err
	}
	info := cons.CachedInfo()
	about, err := s.Info(ctx, jetstream.WithSubjectFilter(info.Config.FilterSubject))
	if err != nil {
		return err
	}
	var stored uint64
	for _, n := range about.State.Subjects {
		stored += n
	}
	if known := info.NumPending + uint64(info.NumAckPending); stored > known {
		c.opts.OnError(fmt.Errorf("consumer %s knows of %d records, %d are stored: it is reset", name, known, stored))
		_, err = c.js.ResetConsumerToSequence(ctx, about.Config.Name, name, about.State.FirstSeq)
	}
	return err
}
