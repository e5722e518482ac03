package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"penstock/schema"
)

// Delivery is one record that was handed to this process and that it must settle: by one of the methods here, or,
// from any process, by AckSubject. Until then it counts against its consumer's limit.
type Delivery[T schema.Record] struct {
	Record      T
	Subject     string
	AckSubject  string
	Seq         uint64              // in the stream
	Stored      time.Time           // when the server took it
	Redelivered bool                // a hint: false after a restart of the server proves nothing
	Header      map[string][]string // such as a trace context

	c *Conn
}

// Ack settles the record and returns when the server has confirmed. See [Conn.AckRoot].
func (d *Delivery[T]) Ack(ctx context.Context) error { return d.c.AckRoot(ctx, d.AckSubject) }

// AckSoon settles the record without waiting for the server. See [Conn.AckSoon].
func (d *Delivery[T]) AckSoon() error { return d.c.AckSoon(d.AckSubject) }

// NakDelay hands the record back, to be delivered again after delay. It holds its consumer's credit meanwhile.
// With no delay it comes back at once: right for work that somebody else can do, wrong for "not yet".
func (d *Delivery[T]) NakDelay(ctx context.Context, delay time.Duration) error {
	return d.c.NakRoot(ctx, d.AckSubject, delay)
}

// InProgress restarts the record's AckWait without waiting for the server.
func (d *Delivery[T]) InProgress() error { return d.c.ProgressRoot(d.AckSubject) }

// Term settles the record as one that nobody can work on. The reason is shown by the server's advisories, and reported.
func (d *Delivery[T]) Term(ctx context.Context, reason string) error {
	d.c.opts.OnError(fmt.Errorf("record %d on %s is terminated: %s", d.Seq, d.Subject, reason))
	return d.c.settle(ctx, OpTerm, d.AckSubject, "+TERM "+reason)
}

// deliver decodes m. A record that does not decode is terminated, so that it cannot come back for ever, and reported.
func deliver[T schema.Record](ctx context.Context, c *Conn, m *nats.Msg) (*Delivery[T], bool) {
	if o := c.fault(OpDeliver, m.Subject); o == LoseRequest || o == Cut {
		return nil, false
	}
	d := &Delivery[T]{Subject: m.Subject, AckSubject: m.Reply, Header: m.Header, c: c}
	meta, err := m.Metadata()
	if err == nil {
		d.Seq, d.Stored, d.Redelivered = meta.Sequence.Stream, meta.Timestamp, meta.NumDelivered > 1
		d.Record, err = schema.Decode[T](m.Data)
	}
	if d.Redelivered && c.opts.OnRedelivery != nil {
		c.opts.OnRedelivery(d.Subject)
	}
	if err == nil {
		return d, true
	}
	if err := d.Term(ctx, err.Error()); err != nil {
		c.opts.OnError(err)
	}
	return nil, false
}
