package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"penstock/schema"
)

// Publisher puts records of one kind on one edge. It is safe for concurrent use; two publishers of one subject
// are not ordered against each other.
type Publisher[T schema.Record] struct {
	c *Conn
	e Edge[T]
}

// NewPublisher returns a publisher of e.
func NewPublisher[T schema.Record](c *Conn, e Edge[T]) *Publisher[T] {
	return &Publisher[T]{c: c, e: e}
}

// Publish stores rec on the edge's subject of token and returns when the server has it. Until ctx ends it tries
// again after a lost connection or answer; id, which the stream remembers, keeps that from storing it twice.
// So id names the attempt, not the batch: a batch that is forwarded again must not be taken for a duplicate.
//
// A subject that holds as many records as it may gives [ErrFull] at once; see [Publisher.PublishWhenFree].
func (p *Publisher[T]) Publish(ctx context.Context, token string, rec T, id string) error {
	if err := CheckToken("subject token", token); err != nil {
		return err
	}
	m, err := p.c.message(ctx, p.e.Subject(token), rec)
	if err != nil {
		return err
	}
	if id != "" {
		m.Header.Set(jetstream.MsgIDHeader, id)
	}
	return p.c.retry(ctx, "publish on "+m.Subject, func(ctx context.Context) error {
		_, err := p.c.publish(ctx, m)
		if isFull(err) {
			return ErrFull
		}
		return err
	})
}

// PublishWhenFree is Publish that waits until the subject has room.
func (p *Publisher[T]) PublishWhenFree(ctx context.Context, token string, rec T, id string) error {
	for wait := minWait; ; wait = min(2*wait, maxWait) {
		err := p.Publish(ctx, token, rec, id)
		if !errors.Is(err, ErrFull) {
			return err
		}
		if sleep(ctx, wait) != nil {
			return fmt.Errorf("%w (last: %v)", context.Cause(ctx), err)
		}
	}
}

// message encodes rec for a subject.
func (c *Conn) message(ctx context.Context, subject string, rec schema.Record) (*nats.Msg, error) {
	data, err := schema.Encode(rec)
	if err != nil {
		return nil, fmt.Errorf("publish on %s: %w", subject, err)
	}
	m := nats.NewMsg(subject)
	m.Data = data
	if c.opts.Inject != nil {
		c.opts.Inject(ctx, m.Header)
	}
	return m, nil
}

func expectLast(m *nats.Msg, seq uint64) {
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(seq, 10))
}
