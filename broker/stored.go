package broker

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"penstock/schema"
)

// Depths returns how many records each subject of the edge stores, delivered ones included, by token. A token without
// any is left out.
func Depths[T schema.Record](ctx context.Context, c *Conn, e Edge[T]) (map[string]uint64, error) {
	depths := map[string]uint64{}
	err := c.retry(ctx, "count the records of "+e.Stream, func(ctx context.Context) error {
		s, err := c.stream(ctx, e.Stream)
		if err != nil {
			return err
		}
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(e.Subject("*")))
		if err != nil {
			return err
		}
		clear(depths)
		for subject, n := range info.State.Subjects {
			depths[subject[len(e.Subject("")):]] = n
		}
		return nil
	})
	return depths, err
}

// Stored returns the records that the edge's subject of token stores, delivered ones included, oldest first. What does
// not decode is left out.
func Stored[T schema.Record](ctx context.Context, c *Conn, e Edge[T], token string) ([]T, error) {
	subject := e.Subject(token)
	var recs []T
	err := c.retry(ctx, "read the records of "+subject, func(ctx context.Context) error {
		s, err := c.stream(ctx, e.Stream)
		if err != nil {
			return err
		}
		recs = recs[:0]
		for next := uint64(1); ; {
			m, err := s.GetMsg(ctx, next, jetstream.WithGetMsgSubject(subject))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			if rec, err := schema.Decode[T](m.Data); err == nil {
				recs = append(recs, rec)
			}
			next = m.Sequence + 1
		}
	})
	return recs, err
}
