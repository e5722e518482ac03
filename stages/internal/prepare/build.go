package prepare

import (
	"context"
	"fmt"
	"runtime"

	"penstock/schema/store"
)

// batchOut are the documents of one chunk.
type batchOut struct {
	file string
	docs []document
}

// build tokenises the data and puts the reject file, the report and, last, the store in place.
func build(ctx context.Context, o Options, src *source, to place) (Report, error) {
	w, err := store.Create(to.store, src.info)
	if err != nil {
		return Report{}, err
	}
	defer w.Abort()
	rejects, err := createRejects(to.rejects)
	if err != nil {
		return Report{}, err
	}
	defer rejects.abort()
	r := Report{Store: to.store, Data: src.info.Name(), Rejects: map[string]int{}}
	seen := keys{}
	workers := o.Workers
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	err = ordered(ctx, workers,
		func(ctx context.Context, emit func(chunk) error) error {
			for _, f := range src.files {
				if err := readChunks(ctx, f, emit); err != nil {
					return fmt.Errorf("read data file %q: %w", f.path, err)
				}
			}
			return nil
		},
		func(c chunk) batchOut {
			out := batchOut{c.file, make([]document, len(c.rows))}
			for i, row := range c.rows {
				out.docs[i] = src.document(row)
			}
			return out
		},
		func(out batchOut) error {
			for _, d := range out.docs {
				r.Rows++
				if d.no != nil {
					r.Rejected++
					r.Rejects[d.no.reason]++
					if err := rejects.add(out.file, d.line, *d.no); err != nil {
						return err
					}
					continue
				}
				key, repeated := seen.next(d.text)
				if err := w.Add(key, d.ids, d.mask); err != nil {
					return fmt.Errorf("%s:%d: %w", out.file, d.line, err)
				}
				r.count(d, repeated)
			}
			return nil
		})
	if err != nil {
		return Report{}, err
	}
	if r.RejectFile, err = rejects.commit(); err != nil {
		return Report{}, err
	}
	if r.Documents == 0 {
		return Report{}, r.nothingLeft(o)
	}
	if err := r.write(to.report); err != nil {
		return Report{}, err
	}
	return r, w.Commit()
}
