package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"penstock/schema"
)

// Hint is the last record of one key of the board.
type Hint struct {
	Key    string
	Seq    uint64
	Stored time.Time
	Record schema.Record
}

// Board holds hints: the last record of each key, for whoever wants to choose well or to show something. Nothing
// may be concluded from a hint that the ledger does not say; a lost one costs time only.
type Board struct{ c *Conn }

// Board returns the board of the broker.
func (c *Conn) Board() Board { return Board{c} }

// Put replaces the hint of key, such as bucket.b512, and returns when the server has it.
func (b Board) Put(ctx context.Context, key string, rec schema.Record) error {
	m, err := b.c.message(ctx, boardPrefix+key, rec)
	if err != nil {
		return err
	}
	return b.c.retry(ctx, "put "+m.Subject, func(ctx context.Context) error {
		_, err := b.c.publish(ctx, m)
		return err
	})
}

// Get returns the hint of key, and whether there is one.
func (b Board) Get(ctx context.Context, key string) (Hint, bool, error) {
	var h Hint
	var found bool
	err := b.c.retry(ctx, "get "+boardPrefix+key, func(ctx context.Context) error {
		s, err := b.c.stream(ctx, boardStream)
		if err != nil {
			return err
		}
		m, err := s.GetLastMsgForSubject(ctx, boardPrefix+key)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		rec, err := schema.DecodeAny(m.Data)
		h, found = Hint{Key: key, Seq: m.Sequence, Stored: m.Time, Record: rec}, err == nil
		return err
	})
	return h, found, err
}

// Remove takes the hint of key off the board. Watchers are not told.
func (b Board) Remove(ctx context.Context, key string) error {
	return b.c.retry(ctx, "remove "+boardPrefix+key, func(ctx context.Context) error {
		s, err := b.c.stream(ctx, boardStream)
		if err != nil {
			return err
		}
		return s.Purge(ctx, jetstream.WithPurgeSubject(boardPrefix+key))
	})
}

// List returns the hints whose keys match pattern, such as stage.* or >.
func (b Board) List(ctx context.Context, pattern string) ([]Hint, error) {
	msgs, err := b.c.snapshot(ctx, boardStream, boardPrefix+pattern, jetstream.DeliverLastPerSubjectPolicy)
	var hints []Hint
	at := map[string]int{} // of a key that was replaced while it was read, the later one stands
	for _, m := range msgs {
		h, ok := b.hint(m)
		if i, seen := at[h.Key]; ok && seen {
			hints[i] = h
		} else if ok {
			at[h.Key] = len(hints)
			hints = append(hints, h)
		}
	}
	return hints, err
}

// Watch calls f with each hint whose key matches pattern, those on the board first, then each new one. Of several
// that follow each other quickly, some may be left out, the last never. It returns f's error, or the cause of ctx.
func (b Board) Watch(ctx context.Context, pattern string, f func(Hint) error) error {
	return b.c.follow(ctx, boardStream, reading{filters: []string{boardPrefix + pattern}, at: cursor{last: true}}, func(m *nats.Msg) error {
		if h, ok := b.hint(m); ok {
			return f(h)
		}
		return nil
	})
}

// hint decodes m; what does not decode is reported and left out.
func (b Board) hint(m *nats.Msg) (Hint, bool) {
	meta, err := m.Metadata()
	h := Hint{Key: strings.TrimPrefix(m.Subject, boardPrefix)}
	if err == nil {
		h.Seq, h.Stored = meta.Sequence.Stream, meta.Timestamp
		h.Record, err = schema.DecodeAny(m.Data)
	}
	if err != nil {
		b.c.opts.OnError(fmt.Errorf("hint %s is left out: %w", m.Subject, err))
	}
	return h, err == nil
}
