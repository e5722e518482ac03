package group

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/broker/slots"
	"penstock/schema"
)

// Bury puts dead members out and then has what they held given out again, at once, so that their part of the open window
// is redone; journal says where a rank's journal is. It returns how many members are left and how many batches came back.
// When nobody is left nothing is handed back: a new generation does it all again.
func Bury(ctx context.Context, conn *broker.Conn, v View, journal func(rank string) string, dead func(policy.Member) bool) (left, batches int, err error) {
	out, err := Remove(ctx, conn.Ledger(), v, dead)
	if left = len(v.Lineage().Members); err != nil || left == 0 {
		return left, 0, err
	}
	if len(out) > 0 { // hops, those that were on their way to the dead included
		err = conn.ResetHops(ctx, broker.Train)
	}
	for _, m := range out {
		n, herr := HandBack(ctx, conn, journal(m.Rank), m.Incarnation)
		batches, err = batches+n, errors.Join(err, herr)
	}
	return left, batches, err
}

// BuryRank is Bury by who knows that a rank's process has ended, and that none has its name now. What it held is given out again
// though somebody else has put it out, who may have died before that; what is given out twice is void by the ledger. It is done
// once: the journal goes.
func BuryRank(ctx context.Context, conn *broker.Conn, v View, journal, rank string) (batches int, err error) {
	if _, err := Remove(ctx, conn.Ledger(), v, func(m policy.Member) bool { return m.Rank == rank }); err != nil {
		return 0, err
	}
	if len(v.Lineage().Members) > 0 {
		err = conn.ResetHops(ctx, broker.Train)
		n, herr := HandBack(ctx, conn, journal, 0)
		batches, err = n, errors.Join(err, herr)
	}
	if err != nil {
		return batches, err
	}
	if err := os.Remove(journal); !errors.Is(err, fs.ErrNotExist) {
		return batches, err
	}
	return batches, nil
}

// HandBack returns to the broker whatever the journal of a dead process says it held. A journal that is missing, or of
// another incarnation unless that is 0, says nothing.
func HandBack(ctx context.Context, conn *broker.Conn, journal string, incarnation uint64) (batches int, err error) {
	j, err := slots.ReadJournal(journal)
	if errors.Is(err, fs.ErrNotExist) || err == nil && incarnation != 0 && j.Incarnation != incarnation {
		return 0, nil
	}
	for _, u := range j.Uses {
		if nerr := conn.NakRoot(ctx, u.Root, 0); nerr != nil && !errors.Is(nerr, broker.ErrGone) {
			err = errors.Join(err, nerr)
		}
	}
	return len(j.Uses), err
}

// Reading is a view that reads the ledger when it has to. It is for one goroutine.
type Reading struct {
	ledger  broker.Ledger
	lineage policy.Lineage
}

// Read returns the rank group as the ledger has it now.
func Read(ctx context.Context, ledger broker.Ledger) (*Reading, error) {
	r := &Reading{ledger: ledger}
	return r, r.Reach(ctx, 0)
}

// Lineage implements [View].
func (r *Reading) Lineage() policy.Lineage { return r.lineage }

// Reach implements [View]: it reads the generation in force and all that changed its windows and ranks.
func (r *Reading) Reach(ctx context.Context, _ uint64) error {
	gen, err := r.ledger.LastGen(ctx)
	if err != nil || gen.Gen == 0 {
		return err
	}
	entries, _, err := r.ledger.History(ctx, broker.LedgerControls)
	if err != nil {
		return err
	}
	var l policy.Lineage
	l.Apply(gen, 0)
	for _, e := range entries {
		switch rec := e.Record.(type) {
		case schema.Commit, schema.RankEpoch:
			l.Apply(rec, e.Seq)
		}
	}
	r.lineage = l
	return nil
}
