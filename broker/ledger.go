package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"penstock/schema"
)

// Entry is one record of the ledger.
type Entry struct {
	Subject string
	Seq     uint64 // in the stream; what a later record of the subject must expect
	Stored  time.Time
	Record  schema.Record
}

// Ledger is the truth about a run: an append-only stream with one subject per batch, per window's control and per
// generation. A record is stored only if the sequence of its subject's last record is the one that the writer has
// seen, 0 for none, so that of several writers exactly one is first.
type Ledger struct{ c *Conn }

// Ledger returns the ledger of the broker.
func (c *Conn) Ledger() Ledger { return Ledger{c} }

// Subjects of the ledger, and filters over them.

// LedgerBatch is where a batch is claimed, added, suspected or declared dead.
func LedgerBatch(gen, window, batch uint32) string {
	return fmt.Sprintf("ps.ledger.%d.%d.%d", gen, window, batch)
}

// LedgerControl is where a window is committed or its rank epoch changed.
func LedgerControl(gen, window uint32) string { return fmt.Sprintf("ps.ledger.%d.%d.ctl", gen, window) }

// LedgerPrepared is where a rank says that its reduced sum is ready.
func LedgerPrepared(gen, window uint32, rank string) string {
	return fmt.Sprintf("ps.ledger.%d.%d.prep.%s", gen, window, rank)
}

// LedgerGen is where a generation is opened.
func LedgerGen(gen uint32) string { return fmt.Sprintf("ps.ledger.%d.gen", gen) }

// Filters: all of a window, all of a generation, every generation's opening, every window's control record, everything.
func LedgerWindow(gen, window uint32) string { return fmt.Sprintf("ps.ledger.%d.%d.>", gen, window) }
func LedgerGeneration(gen uint32) string     { return fmt.Sprintf("ps.ledger.%d.>", gen) }

const (
	LedgerGens     = "ps.ledger.*.gen"
	LedgerControls = "ps.ledger.*.*.ctl"
	LedgerAll      = "ps.ledger.>"
)

// Append stores rec on subject if the subject's last record has sequence after, and returns the new sequence.
// Otherwise the error is a [LostError] with the record that stands there, unless that equals rec: then an earlier
// try of the same append went through, or somebody wrote the same truth, and its sequence is returned.
func (l Ledger) Append(ctx context.Context, subject string, rec schema.Record, after uint64) (uint64, error) {
	m, err := l.c.message(ctx, subject, rec)
	if err != nil {
		return 0, err
	}
	expectLast(m, after)
	var seq uint64
	err = l.c.retry(ctx, "append to "+subject, func(ctx context.Context) error {
		ack, err := l.c.publish(ctx, m)
		if err == nil {
			seq = ack.Sequence
			return nil
		}
		if !isWrongLast(err) {
			return err
		}
		last, err := l.last(ctx, subject)
		if err != nil {
			return err
		}
		if !same(last.Record, m.Data) {
			return &LostError{Winner: last}
		}
		seq = last.Seq
		return nil
	})
	return seq, err
}

// same compares encoded forms: equal records have equal bytes.
func same(rec schema.Record, data []byte) bool {
	if rec == nil {
		return false
	}
	b, err := schema.Encode(rec)
	return err == nil && bytes.Equal(b, data)
}

// Last returns the last record of one subject, with a nil Record if there is none.
func (l Ledger) Last(ctx context.Context, subject string) (Entry, error) {
	var e Entry
	err := l.c.retry(ctx, "read "+subject, func(ctx context.Context) error {
		var err error
		e, err = l.last(ctx, subject)
		return err
	})
	return e, err
}

func (l Ledger) last(ctx context.Context, subject string) (Entry, error) {
	s, err := l.c.stream(ctx, ledgerStream)
	if err != nil {
		return Entry{}, err
	}
	m, err := s.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Entry{Subject: subject}, nil
	}
	if err != nil {
		return Entry{}, err
	}
	rec, err := schema.DecodeAny(m.Data)
	if err != nil {
		return Entry{}, fmt.Errorf("record %d of %s: %w", m.Sequence, subject, err)
	}
	return Entry{Subject: m.Subject, Seq: m.Sequence, Stored: m.Time, Record: rec}, nil
}

// State returns the last record of every subject that matches filter, in the order of the stream, and the sequence
// to follow on from.
func (l Ledger) State(ctx context.Context, filter string) ([]Entry, uint64, error) {
	return l.read(ctx, filter, jetstream.DeliverLastPerSubjectPolicy)
}

// History returns every record that matches filter, in the order of the stream, and the sequence to follow on from.
func (l Ledger) History(ctx context.Context, filter string) ([]Entry, uint64, error) {
	return l.read(ctx, filter, jetstream.DeliverAllPolicy)
}

func (l Ledger) read(ctx context.Context, filter string, policy jetstream.DeliverPolicy) ([]Entry, uint64, error) {
	msgs, err := l.c.snapshot(ctx, ledgerStream, filter, policy)
	if err != nil || len(msgs) == 0 {
		return nil, 0, err
	}
	entries := make([]Entry, len(msgs))
	for i, m := range msgs {
		if entries[i], err = entry(m); err != nil {
			return nil, 0, err
		}
	}
	return entries, entries[len(entries)-1].Seq, nil
}

// Follow calls f for every record that matches filter and has a sequence above after, those stored already and then
// each new one, in order, none twice, through restarts of the server. It returns f's error, or the cause of ctx.
func (l Ledger) Follow(ctx context.Context, filter string, after uint64, f func(Entry) error) error {
	return l.follow(ctx, reading{filters: []string{filter}, at: cursor{seq: after}}, f)
}

// FollowFront is Follow of the generations' openings and the windows' control records from the first on: how far the run
// is, and not what becomes of each batch.
func (l Ledger) FollowFront(ctx context.Context, f func(Entry) error) error {
	return l.follow(ctx, reading{filters: []string{LedgerGens, LedgerControls}}, f)
}

// Trail is Follow of everything, from the first record on, that looks only every so often: for whoever counts, since many
// records at once cost the server and the reader much less than each as it comes.
func (l Ledger) Trail(ctx context.Context, every time.Duration, f func(Entry) error) error {
	return l.follow(ctx, reading{filters: []string{LedgerAll}, every: every}, f)
}

func (l Ledger) follow(ctx context.Context, r reading, f func(Entry) error) error {
	return l.c.follow(ctx, ledgerStream, r, func(m *nats.Msg) error {
		e, err := entry(m)
		if err != nil {
			return err
		}
		return f(e)
	})
}

func entry(m *nats.Msg) (Entry, error) {
	meta, err := m.Metadata()
	if err != nil {
		return Entry{}, fmt.Errorf("record on %s: %w", m.Subject, err)
	}
	rec, err := schema.DecodeAny(m.Data)
	if err != nil {
		return Entry{}, fmt.Errorf("record %d of %s: %w", meta.Sequence.Stream, m.Subject, err)
	}
	return Entry{Subject: m.Subject, Seq: meta.Sequence.Stream, Stored: meta.Timestamp, Record: rec}, nil
}

// LastGen returns the record of the highest generation; Gen is 0 if none was ever opened.
func (l Ledger) LastGen(ctx context.Context) (schema.Gen, error) {
	gens, _, err := l.State(ctx, LedgerGens)
	var last schema.Gen
	for _, e := range gens {
		if g, ok := e.Record.(schema.Gen); ok && g.Gen > last.Gen {
			last = g
		}
	}
	return last, err
}

// End returns the sequence of the ledger's last record, 0 if it is empty.
func (l Ledger) End(ctx context.Context) (uint64, error) {
	var seq uint64
	err := l.c.retry(ctx, "find the end of the ledger", func(ctx context.Context) error {
		s, err := l.c.stream(ctx, ledgerStream)
		if err == nil {
			seq = s.CachedInfo().State.LastSeq
		}
		return err
	})
	return seq, err
}
