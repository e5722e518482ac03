package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"penstock/schema"
)

// ResetHops has every hop of an edge that is delivered and not acknowledged delivered again at once, to whoever pulls:
// what a dead packer held comes back, and what living ones hold comes a second time, which is void by the ledger. No
// generation that is open is no error.
func (c *Conn) ResetHops(ctx context.Context, e Edge[schema.Hop]) error {
	gen, err := c.Ledger().LastGen(ctx)
	if err != nil || gen.Gen == 0 {
		return err
	}
	err = c.reset(ctx, e.Stream, hopName(e, gen.Gen))
	if errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// reset takes a consumer back to the first message that is not acknowledged. Acknowledgements under way may be lost. It is the
// consumer that answers: of one that is gone there would be no answer, whoever asks and for how long.
func (c *Conn) reset(ctx context.Context, stream, consumer string) error {
	return c.retry(ctx, fmt.Sprintf("reset consumer %s of %s", consumer, stream), func(ctx context.Context) error {
		_, err := c.js.Consumer(ctx, stream, consumer)
		if err == nil {
			_, err = c.js.ResetConsumer(ctx, stream, consumer)
		}
		if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrConsumerDoesNotExist) {
			return ErrGone
		}
		return err
	})
}

// ResetRoots is ResetHops for the roots of a bucket.
func (c *Conn) ResetRoots(ctx context.Context, gen uint32, bucket string) error {
	return c.reset(ctx, Fwd.Stream, fwdName(gen, bucket))
}

// RootOf reports whether an acknowledge subject is that of a root of the bucket.
func RootOf(ackSubject string, gen uint32, bucket string) bool {
	return strings.HasPrefix(ackSubject, "$JS.ACK."+Fwd.Stream+"."+fwdName(gen, bucket)+".")
}
