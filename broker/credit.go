package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"penstock/schema"
)

// Credit is a consumer's own account of itself.
type Credit struct {
	Limit   int    // the most records that may be open; -1 for no limit
	Open    int    // delivered and not acknowledged, those that wait for a delayed redelivery included
	Queued  uint64 // stored and not delivered yet
	Waiting int    // pulls parked on the server
}

// Credit reads a bucket's limit and how much of it is in use.
func (c *Conn) Credit(ctx context.Context, gen uint32, bucket string) (Credit, error) {
	info, err := c.consumerInfo(ctx, Fwd.Stream, fwdName(gen, bucket))
	if err != nil {
		return Credit{}, err
	}
	return account(info), nil
}

// HopCredit reads the same of a hop's consumer.
func (c *Conn) HopCredit(ctx context.Context, e Edge[schema.Hop], gen uint32) (Credit, error) {
	info, err := c.consumerInfo(ctx, e.Stream, hopName(e, gen))
	if err != nil {
		return Credit{}, err
	}
	return account(info), nil
}

// SetCredit moves a bucket's limit while roots are open. A lower limit takes nothing back: it holds until enough
// of the open roots are acknowledged.
func (c *Conn) SetCredit(ctx context.Context, gen uint32, bucket string, limit int) error {
	if limit < 1 {
		return fmt.Errorf("credit of %s: %d, must be positive", bucket, limit)
	}
	info, err := c.consumerInfo(ctx, Fwd.Stream, fwdName(gen, bucket))
	if err != nil || info.Config.MaxAckPending == limit {
		return err
	}
	cfg := info.Config
	cfg.MaxAckPending = limit
	return c.retry(ctx, fmt.Sprintf("set credit of %s to %d", bucket, limit), func(ctx context.Context) error {
		_, err := c.js.UpdateConsumer(ctx, Fwd.Stream, cfg)
		if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrConsumerDoesNotExist) {
			return ErrGone
		}
		return err
	})
}

func (c *Conn) consumerInfo(ctx context.Context, stream, consumer string) (*jetstream.ConsumerInfo, error) {
	var info *jetstream.ConsumerInfo
	err := c.retry(ctx, "look up consumer "+consumer, func(ctx context.Context) error {
		cons, err := c.js.Consumer(ctx, stream, consumer)
		if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
			return ErrGone
		}
		if err == nil {
			info = cons.CachedInfo()
		}
		return err
	})
	return info, err
}

func account(info *jetstream.ConsumerInfo) Credit {
	return Credit{
		Limit: info.Config.MaxAckPending, Open: info.NumAckPending,
		Queued: info.NumPending, Waiting: info.NumWaiting,
	}
}
