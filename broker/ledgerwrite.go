package broker

import (
	"context"

	"penstock/schema"
)

// The records of the ledger, each with the one subject that it belongs on. after is the sequence of the subject's
// last record that the writer has seen, 0 for none; every one of them returns what [Ledger.Append] returns.

// Claim says before work begins that a rank does it.
func (l Ledger) Claim(ctx context.Context, r schema.Claim, after uint64) (uint64, error) {
	return l.Append(ctx, LedgerBatch(r.Gen, r.Window, r.Index), r, after)
}

// Added follows the rank's own claim.
func (l Ledger) Added(ctx context.Context, r schema.Added, after uint64) (uint64, error) {
	return l.Append(ctx, LedgerBatch(r.Gen, r.Window, r.Index), r, after)
}

// Suspect asks for the batch's features to be computed once more.
func (l Ledger) Suspect(ctx context.Context, r schema.Suspect, after uint64) (uint64, error) {
	return l.Append(ctx, LedgerBatch(r.Gen, r.Window, r.Index), r, after)
}

// Dead rejects the batch; its window closes without it.
func (l Ledger) Dead(ctx context.Context, r schema.Dead, after uint64) (uint64, error) {
	return l.Append(ctx, LedgerBatch(r.Gen, r.Window, r.Index), r, after)
}

// Prepared replaces what the same rank prepared in an earlier rank epoch.
func (l Ledger) Prepared(ctx context.Context, r schema.Prepared, after uint64) (uint64, error) {
	return l.Append(ctx, LedgerPrepared(r.Gen, r.Window, r.Rank), r, after)
}

// Commit closes the window. It competes with RankEpoch: the first record after the one that both have seen wins.
func (l Ledger) Commit(ctx context.Context, r schema.Commit, after uint64) (uint64, error) {
	return l.Append(ctx, LedgerControl(r.Gen, r.Window), r, after)
}

// RankEpoch changes the members of the rank group within the window.
func (l Ledger) RankEpoch(ctx context.Context, r schema.RankEpoch, after uint64) (uint64, error) {
	return l.Append(ctx, LedgerControl(r.Gen, r.Window), r, after)
}

// Gen opens a generation on the ledger. [Conn.OpenGeneration] does it and what follows from it.
func (l Ledger) Gen(ctx context.Context, r schema.Gen) (uint64, error) {
	return l.Append(ctx, LedgerGen(r.Gen), r, 0)
}
