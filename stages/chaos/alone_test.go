package chaos

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"penstock/broker"
	"penstock/broker/slots"
	"penstock/schema"
	"penstock/stages/stagestest"
)

// TestUnsupervisedTargetsWorkIsBackWithinAckWait kills a target that was started by hand: nobody hands its work back, and it
// is given out again when AckWait is over.
func TestUnsupervisedTargetsWorkIsBackWithinAckWait(t *testing.T) {
	const ackWait = 2 * time.Second
	bin := bins(t)
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	r := newRun(t, bin, stagestest.Config(t, 120, func(c *schema.Config) {
		c.Target.Instances = 1
		c.Broker.AckWait = ackWait.String()
	}))
	u := r.up(ctx)
	u.must(ctx, 1)
	held, killed := r.loner(ctx, u)
	back := r.added(ctx, held, killed)
	t.Logf("%d batches in hand; after %v they are in the sum of their windows", len(held), back)
	if back > ackWait+patience {
		t.Errorf("a dead target's work is back after %v, AckWait is %v", back, ackWait)
	}
	u.well()
	if l := r.ledger(); l["missing"] != 0 || l["duplicates"] != 0 || l["documents"] != 120 {
		t.Errorf("ledger: %v", l)
	}
}

// loner starts a target by hand, kills it when it has work in hand, and returns that work and when it did.
func (r *run) loner(ctx context.Context, u *up) (held []schema.Batch, killed time.Time) {
	const name = "target-7"
	cmd := exec.CommandContext(ctx, filepath.Join(r.bin, "target"), "--run", r.dir, "--instance", name)
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	journal := filepath.Join(r.dir, "journal", name)
	err := until(ctx, func() bool {
		j, err := slots.ReadJournal(journal)
		return u.ended() || err == nil && len(j.Uses) > 0
	})
	killed = time.Now()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil || u.ended() {
		r.t.Fatalf("%s has had nothing to do: %v", name, err)
	}
	j, err := slots.ReadJournal(journal)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, use := range j.Uses {
		held = append(held, use.Batch)
	}
	return held, killed
}

// added returns how long after a time the last of the batches was added to its window's sum.
func (r *run) added(ctx context.Context, batches []schema.Batch, since time.Time) time.Duration {
	conn := r.observe(ctx)
	defer conn.Close()
	left := map[uint32]bool{}
	for _, b := range batches {
		left[b.Index] = true
	}
	var last time.Time
	err := conn.Ledger().Follow(ctx, broker.LedgerAll, 0, func(e broker.Entry) error {
		if a, ok := e.Record.(schema.Added); ok && left[a.Index] {
			delete(left, a.Index)
			last = e.Stored
		}
		if len(left) == 0 {
			return io.EOF
		}
		return nil
	})
	if !errors.Is(err, io.EOF) {
		r.t.Fatalf("waiting for batches %v: %v", left, err)
	}
	return last.Sub(since)
}

// observe connects to the run's broker as one who reads.
func (r *run) observe(ctx context.Context) *broker.Conn {
	url, err := broker.ReadURL(filepath.Join(r.dir, "nats.url"))
	if err != nil {
		r.t.Fatal(err)
	}
	key := broker.KeyFile(filepath.Join(r.dir, "keys"), broker.RoleObserver)
	conn, err := broker.Dial(ctx, url, "test", broker.Options{Access: broker.Access{Role: broker.RoleObserver, Key: key}})
	if err != nil {
		r.t.Fatal(err)
	}
	return conn
}
