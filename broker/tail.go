package broker

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"penstock/schema"
)

// Tail returns the last record that is still stored on the edge's subject of token, and whether there is one. A
// publisher that restarts goes on behind it.
func Tail[T schema.Record](ctx context.Context, c *Conn, e Edge[T], token string) (rec T, ok bool, err error) {
	subject := e.Subject(token)
	err = c.retry(ctx, "read the tail of "+subject, func(ctx context.Context) error {
		s, err := c.stream(ctx, e.Stream)
		if err != nil {
			return err
		}
		m, err := s.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			ok = false
			return nil
		}
		if err != nil {
			return err
		}
		rec, err = schema.Decode[T](m.Data)
		ok = err == nil
		return err
	})
	return rec, ok, err
}
