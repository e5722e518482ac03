package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	readBatch  = 256
	readerLife = 30 * time.Second // how long the server keeps the consumer of a reader that is gone
)

// cursor is where reading starts: after a sequence, or, with last set and seq 0, at the last message of each subject.
type cursor struct {
	seq  uint64
	last bool

	subject string // of the message at seq
	stored  time.Time
}

func (at cursor) policy() jetstream.DeliverPolicy {
	if at.seq == 0 && at.last {
		return jetstream.DeliverLastPerSubjectPolicy
	}
	return jetstream.DeliverByStartSequencePolicy
}

// reader makes a consumer that needs no acknowledgements and returns how many messages it finds stored.
func (c *Conn) reader(ctx context.Context, stream string, filters []string, policy jetstream.DeliverPolicy, after uint64) (*pull, uint64, error) {
	cfg := jetstream.ConsumerConfig{
		DeliverPolicy: policy, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: readerLife,
	}
	if len(filters) == 1 {
		cfg.FilterSubject = filters[0]
	} else {
		cfg.FilterSubjects = filters
	}
	if policy == jetstream.DeliverByStartSequencePolicy {
		cfg.OptStartSeq = after + 1
	}
	var info *jetstream.ConsumerInfo
	err := c.retry(ctx, "read "+strings.Join(filters, ", "), func(ctx context.Context) error {
		cons, err := c.js.CreateConsumer(ctx, stream, cfg)
		if err == nil {
			info = cons.CachedInfo()
		}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	p, err := newPull(c, stream, info.Name, readBatch, false)
	return p, info.NumPending, err
}

// forget removes a reader; the server would do so by itself later.
func (c *Conn) forget(p *pull) {
	c.denials.done(p.asks)
	_ = p.sub.Unsubscribe()
	if c.Connected() {
		ctx, cancel := context.WithTimeout(context.Background(), tryTimeout)
		defer cancel()
		_ = c.js.DeleteConsumer(ctx, p.stream, p.consumer)
	}
}

// snapshot returns what matches filter now, in order.
func (c *Conn) snapshot(ctx context.Context, stream, filter string, policy jetstream.DeliverPolicy) ([]*nats.Msg, error) {
	for {
		msgs, err := c.readAll(ctx, stream, filter, policy)
		if err == nil || ctx.Err() != nil || !errors.Is(err, errGap) && !errors.Is(err, ErrEmpty) && !isTransient(err) {
			return msgs, err
		}
		if sleep(ctx, minWait) != nil {
			return nil, fmt.Errorf("read %s: %w (last: %v)", filter, context.Cause(ctx), err)
		}
	}
}

// readAll ends with the messages that were there at first. Fewer are right only where they may be replaced meanwhile.
func (c *Conn) readAll(ctx context.Context, stream, filter string, policy jetstream.DeliverPolicy) ([]*nats.Msg, error) {
	p, n, err := c.reader(ctx, stream, []string{filter}, policy, 0)
	if err != nil {
		return nil, err
	}
	defer c.forget(p)
	msgs := make([]*nats.Msg, 0, n)
	for uint64(len(msgs)) < n {
		m, err := p.take(ctx)
		if errors.Is(err, ErrEmpty) && stream != ledgerStream {
			break
		}
		if err != nil {
			return nil, err
		}
		if _, err := p.inOrder(m, uint64(len(msgs)+1)); err != nil {
			return nil, err
		}
		msgs = append(msgs, m)
	}
	return msgs, nil
}

// reading is how a stream is followed: which subjects, from where, and, if every is positive, only so often.
type reading struct {
	filters []string
	at      cursor
	every   time.Duration
}

// follow calls f for each message after the cursor, in order and once, until ctx ends or f fails.
func (c *Conn) follow(ctx context.Context, stream string, r reading, f func(*nats.Msg) error) error {
	at := r.at
	for {
		p, _, err := c.reader(ctx, stream, r.filters, at.policy(), at.seq)
		if errors.Is(err, jetstream.ErrStreamNotFound) && (at.last || at.seq == 0) && sleep(ctx, maxWait) == nil {
			at = cursor{last: at.last} // whoever lost it makes it again
			continue
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("%w: %w", ErrStore, err)
		}
		if err != nil {
			return err
		}
		if err = c.sameStore(ctx, stream, at); err == nil {
			err = p.each(ctx, r.every, func(m *nats.Msg, seq uint64) error {
				at.seq, at.subject = seq, m.Subject
				if meta, err := m.Metadata(); err == nil {
					at.stored = meta.Timestamp
				}
				return f(m)
			})
		}
		c.forget(p)
		switch {
		case errors.Is(err, ErrStore) && at.last: // hints: what is there now is all that counts
			at = cursor{last: true}
		case !errors.Is(err, errGap):
			return err
		}
	}
}

// errGap ends a reader that may have missed a message; another one continues where it stopped.
var errGap = errors.New("reader was interrupted")

// each calls f with the messages of a reader, without end: as they come, or all there are every so often.
func (p *pull) each(ctx context.Context, every time.Duration, f func(m *nats.Msg, seq uint64) error) error {
	session := p.c.current()
	for count := uint64(1); ; count++ {
		m, err := p.nextIn(ctx, session, every)
		if errors.Is(err, ErrGone) {
			return errGap
		}
		if err != nil {
			return err
		}
		seq, err := p.inOrder(m, count)
		if err != nil {
			return err
		}
		if err := f(m, seq); err != nil {
			return err
		}
	}
}

// inOrder returns the stream sequence of a reader's count-th message. What is on its way when the connection breaks
// is lost, since nobody acknowledges it: the reader's own count of deliveries tells.
func (p *pull) inOrder(m *nats.Msg, count uint64) (uint64, error) {
	meta, err := m.Metadata()
	if err != nil {
		return 0, p.wrap(err)
	}
	if meta.Sequence.Consumer != count {
		return 0, errGap
	}
	return meta.Sequence.Stream, nil
}

// nextIn is next that ends with the session. With a positive every it looks only so often when nothing is there.
func (p *pull) nextIn(ctx context.Context, session context.Context, every time.Duration) (*nats.Msg, error) {
	in, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(session, func() { cancel(errGap) })()
	if every <= 0 {
		return p.next(in)
	}
	for {
		m, err := p.take(in)
		if isTransient(err) {
			return nil, errGap
		}
		if !errors.Is(err, ErrEmpty) {
			return m, err
		}
		if sleep(in, every) != nil {
			return nil, context.Cause(in)
		}
	}
}

// stream returns a handle without asking the server again.
func (c *Conn) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := c.js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	return s, nil
}
