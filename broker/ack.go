package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Any process may settle a message by its acknowledge subject, not only the one that pulled it. The server does
// not fence: it takes a late acknowledgement of a message that was delivered again since, and confirms one of a
// message that is gone. Only the ledger says who did the work.

// AckRoot acknowledges the message behind ackSubject and returns when the server has confirmed. It may be repeated.
// [ErrGone] says that the consumer went with its generation, in which case nothing was acknowledged.
func (c *Conn) AckRoot(ctx context.Context, ackSubject string) error {
	return c.settle(ctx, OpAck, ackSubject, "+ACK")
}

// AckSoon is AckRoot that does not wait for the server's word. One that is lost has the message delivered again after
// AckWait: right where whoever gets it then finds in the ledger, or in the generation of a slot, that nothing is left to do.
func (c *Conn) AckSoon(ackSubject string) error {
	if err := CheckAck(ackSubject); err != nil {
		return err
	}
	if err := c.post(OpAck, ackSubject, []byte("+ACK")); err != nil && !isTransient(err) {
		return fmt.Errorf("%s %s: %w", OpAck, ackSubject, err)
	}
	return nil
}

// NakRoot hands the message back: it is delivered again at once, or after delay if that is positive.
func (c *Conn) NakRoot(ctx context.Context, ackSubject string, delay time.Duration) error {
	body := "-NAK"
	if delay > 0 {
		body = fmt.Sprintf(`-NAK {"delay": %d}`, delay.Nanoseconds())
	}
	return c.settle(ctx, OpNak, ackSubject, body)
}

// ProgressRoot restarts the message's AckWait. It does not wait for the server; call it at a third of AckWait or more often.
func (c *Conn) ProgressRoot(ackSubject string) error {
	if err := CheckAck(ackSubject); err != nil {
		return err
	}
	if err := c.post(OpProgress, ackSubject, []byte("+WPI")); err != nil {
		return fmt.Errorf("progress of %s: %w", ackSubject, err)
	}
	return nil
}

// settle asks until the server confirms. A consumer's subjects are there before a restarted server takes clients,
// so silence after a few tries means that the consumer is gone.
func (c *Conn) settle(ctx context.Context, op Op, ackSubject, body string) error {
	if err := CheckAck(ackSubject); err != nil {
		return err
	}
	silent := 0
	return c.retry(ctx, fmt.Sprintf("%s %s", op, ackSubject), func(ctx context.Context) error {
		err := c.request(ctx, op, ackSubject, []byte(body))
		if errors.Is(err, nats.ErrNoResponders) {
			if silent++; silent == 4 {
				return ErrGone
			}
		}
		return err
	})
}

// CheckAck refuses what is not an acknowledge subject: it came in a record, and we are about to publish on it.
func CheckAck(subject string) error {
	if !strings.HasPrefix(subject, "$JS.ACK.") || strings.ContainsAny(subject, " \t\r\n*>") {
		return fmt.Errorf("%q is not an acknowledge subject", subject)
	}
	return nil
}
