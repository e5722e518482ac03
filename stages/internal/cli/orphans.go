package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"penstock/broker"
	"penstock/broker/slots"
)

// A living process has a root in its journal a moment after it was delivered. One that is open and in no journal for as
// many looks was on its way to a process that died.
const (
	orphanLooks = 4
	orphanEvery = 15 * time.Millisecond
)

// adopt has the buckets delivered again of which more roots are open than the journals name: the death of a target has
// caught one between delivery and journal. Of the others' roots a second delivery is void by the ledger.
func (r *running) adopt(ctx context.Context) {
	v := r.view.View(time.Now())
	for _, b := range v.Buckets {
		lost, err := r.orphaned(ctx, v.Gen, b.Name)
		if err == nil && lost > 0 {
			err = r.conn.ResetRoots(ctx, v.Gen, b.Name)
			r.note(fmt.Sprintf("bucket %s is delivered again: %d open roots are in nobody's hands", b.Name, lost))
		}
		if err != nil {
			r.log.Warn("look for roots in nobody's hands", "bucket", b.Name, "err", err)
		}
	}
}

// orphaned returns how many open roots of a bucket no journal names, 0 as soon as a look finds none.
func (r *running) orphaned(ctx context.Context, gen uint32, bucket string) (lost int, err error) {
	tick := time.NewTicker(orphanEvery)
	defer tick.Stop()
	for range orphanLooks {
		credit, err := r.conn.Credit(ctx, gen, bucket)
		if err != nil {
			return 0, err
		}
		named, err := r.journaled(gen, bucket)
		if err != nil {
			return 0, err
		}
		if lost = credit.Open - named; lost <= 0 {
			return 0, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	return lost, nil
}

// journaled counts the roots of a bucket that the instances' journals name. A root that was delivered again has another
// acknowledge subject than in the journal of the dead: it is known by its batch, which a pool's journal names.
func (r *running) journaled(gen uint32, bucket string) (int, error) {
	paths, err := filepath.Glob(r.dir.Journal("*"))
	if err != nil {
		return 0, err
	}
	batchOf := map[string]string{} // by acknowledge subject
	var held []string
	for _, path := range paths {
		j, err := slots.ReadJournal(path)
		if err != nil {
			continue // it is being replaced
		}
		for _, u := range j.Uses {
			if !broker.RootOf(u.Root, gen, bucket) {
				continue
			}
			held = append(held, u.Root)
			if u.Batch.Run != "" {
				batchOf[u.Root] = fmt.Sprintf("batch %d", u.Batch.Index)
			}
		}
	}
	named := map[string]bool{}
	for _, root := range held {
		if b, ok := batchOf[root]; ok {
			root = b
		}
		named[root] = true
	}
	return len(named), nil
}

// redeliver has what a dead process had been sent, and had not put into its journal, sent again: a target's roots, the hops of
// a packer or of a rank. Until the broker has noticed the death, it may answer the dead's last request with that; when a successor works, it
// has, and everything is looked for once more.
func (r *running) redeliver(instance string) {
	r.vitals.onceBack(instance, func() { r.redeliverNow(instance) })
	r.redeliverNow(instance)
}

func (r *running) redeliverNow(instance string) {
	ctx, cancel := context.WithTimeout(context.Background(), handBackWait)
	defer cancel()
	switch {
	case strings.HasPrefix(instance, "target-"):
		r.adopt(ctx)
	case strings.HasPrefix(instance, "pack-"):
		if err := r.conn.ResetHops(ctx, broker.Pack); err != nil {
			r.log.Warn("have hops delivered again", "instance", instance, "err", err)
		}
	case strings.HasPrefix(instance, "draft-") && r.cfg.Draft.Ranks > 1: // one alone has opened another generation
		if err := r.conn.ResetHops(ctx, broker.Train); err != nil {
			r.log.Warn("have hops delivered again", "instance", instance, "err", err)
		}
	}
}
