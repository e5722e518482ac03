package broker

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Op names an operation that a Conn sends.
type Op string

// The operations that a Fault sees. OpDeliver is a record that has arrived, on its subject; it can only be held, lost
// or cut.
const (
	OpDeliver  Op = "deliver"
	OpPublish  Op = "publish"
	OpAck      Op = "ack"
	OpNak      Op = "nak"
	OpTerm     Op = "term"
	OpProgress Op = "progress"
)

// Outcome is what becomes of an operation.
type Outcome int

// The outcomes. A lost request never reaches the server; with a lost reply it did, and the sender does not know.
// A record published twice is stored twice, its message id notwithstanding. Cut closes the connection in place of the
// operation, as the death of the process would: nothing more comes or goes.
const (
	Pass Outcome = iota
	LoseRequest
	LoseReply
	Twice
	Cut
)

// Fault decides what becomes of one operation on a subject. It may block: that is a delay.
type Fault func(op Op, subject string) Outcome

func (c *Conn) fault(op Op, subject string) Outcome {
	if c.opts.Fault == nil {
		return Pass
	}
	o := c.opts.Fault(op, subject)
	if o == Cut {
		c.nc.Close()
	}
	return o
}

// publish sends m once and waits for the server's word that it is stored.
func (c *Conn) publish(ctx context.Context, m *nats.Msg) (*jetstream.PubAck, error) {
	send := func(m *nats.Msg) (*jetstream.PubAck, error) {
		return c.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
	}
	switch c.fault(OpPublish, m.Subject) {
	case LoseRequest:
		return nil, nats.ErrTimeout
	case Cut:
		return nil, nats.ErrConnectionClosed
	case LoseReply:
		_, _ = send(m)
		return nil, nats.ErrTimeout
	case Twice:
		again := nats.NewMsg(m.Subject)
		again.Data = m.Data
		_, _ = send(again)
	}
	return send(m)
}

// request sends data once and waits for the server's word that it was taken.
func (c *Conn) request(ctx context.Context, op Op, subject string, data []byte) error {
	send := func() error {
		_, err := c.nc.RequestWithContext(ctx, subject, data)
		return err
	}
	switch c.fault(op, subject) {
	case LoseRequest:
		return nats.ErrTimeout
	case Cut:
		return nats.ErrConnectionClosed
	case LoseReply:
		_ = send()
		return nats.ErrTimeout
	case Twice:
		_ = send()
	}
	return send()
}

// post sends data and waits for nothing.
func (c *Conn) post(op Op, subject string, data []byte) error {
	switch c.fault(op, subject) {
	case LoseRequest:
		return nil
	case Cut:
		return nats.ErrConnectionClosed
	case Twice:
		if err := c.nc.Publish(subject, data); err != nil {
			return err
		}
	}
	return c.nc.Publish(subject, data)
}
