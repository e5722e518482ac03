package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// EnsureTopology makes the streams that are missing and checks the others. A stream of another shape gives
// [ErrTopology] with the setting that differs; it is left alone, since it holds somebody's records.
func (c *Conn) EnsureTopology(ctx context.Context) error {
	for _, want := range streams {
		err := c.retry(ctx, "ensure stream "+want.Name, func(ctx context.Context) error {
			s, err := c.js.Stream(ctx, want.Name)
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				if c.opts.Key != "" && c.opts.Role != RoleBroker {
					return jetstream.ErrNoStreamResponse // the broker is about to make it
				}
				_, err = c.js.CreateStream(ctx, want)
				return err
			}
			if err != nil {
				return err
			}
			return compare(s.CachedInfo().Config, want)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func compare(have, want jetstream.StreamConfig) error {
	for _, s := range []struct {
		name       string
		have, want any
		same       bool
	}{
		{"subjects", have.Subjects, want.Subjects, slices.Equal(have.Subjects, want.Subjects)},
		{"retention", have.Retention, want.Retention, have.Retention == want.Retention},
		{"storage", have.Storage, want.Storage, have.Storage == want.Storage},
		{"discard policy", have.Discard, want.Discard, have.Discard == want.Discard},
		{"discard new per subject", have.DiscardNewPerSubject, want.DiscardNewPerSubject, have.DiscardNewPerSubject == want.DiscardNewPerSubject},
		{"largest message", have.MaxMsgSize, want.MaxMsgSize, have.MaxMsgSize == want.MaxMsgSize},
		{"deny delete", have.DenyDelete, want.DenyDelete, have.DenyDelete == want.DenyDelete},
		{"deny purge", have.DenyPurge, want.DenyPurge, have.DenyPurge == want.DenyPurge},
		{"oldest message", have.MaxAge, want.MaxAge, have.MaxAge == want.MaxAge},
	} {
		if !s.same {
			return fmt.Errorf("%w: %s is %v, must be %v; use another broker or remove the stream", ErrTopology, s.name, s.have, s.want)
		}
	}
	return nil
}
