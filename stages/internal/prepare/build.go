package prepare

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"

	"penstock/schema/store"
	"penstock/stages/internal/rundir"
)

const (
	partChunks  = 512  // chunks of a part: 128 MiB of text
	heldPrompts = 1000 // prompts of held-out documents that are written down
)

// numbered is a chunk with the part that it belongs to.
type numbered struct {
	chunk
	part int
}

// batchOut are the documents of one chunk.
type batchOut struct {
	numbered
	docs []document
}

// build tokenises the data, part by part, and puts the reject file, the prompts, the report and, last, the store in place.
func build(ctx context.Context, o Options, src *source, to place) (Report, error) {
	p, err := openParts(src, to.parts)
	if err != nil {
		return Report{}, err
	}
	defer p.abort()
	workers := o.Workers
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	resumed, size := p.done, o.partChunks
	if size == 0 {
		size = partChunks
	}
	err = Ordered(ctx, workers,
		func(ctx context.Context, emit func(numbered) error) error {
			chunks := 0
			for _, f := range src.files {
				err := readChunks(ctx, f, func(c chunk) error {
					n := numbered{c, chunks / size}
					chunks++
					if n.part < resumed {
						return ctx.Err()
					}
					return emit(n)
				})
				if err != nil {
					return fmt.Errorf("read data file %q: %w", f.path, err)
				}
			}
			return nil
		},
		func(c numbered) batchOut {
			out := batchOut{c, make([]document, len(c.rows))}
			for i, row := range c.rows {
				out.docs[i] = src.document(row)
			}
			return out
		},
		func(out batchOut) error { return p.add(out.part, out.file, out.docs) })
	if err == nil {
		err = p.end()
	}
	if err != nil {
		return Report{}, err
	}
	r, err := p.join(to)
	if err != nil {
		return Report{}, err
	}
	if r.Documents == 0 {
		if err := os.RemoveAll(to.parts); err != nil {
			return Report{}, fmt.Errorf("remove the parts: %w", err)
		}
		return Report{}, r.nothingLeft(o)
	}
	if err := r.write(to.report); err != nil {
		return Report{}, err
	}
	if err := p.joinStores(to.store); err != nil {
		return Report{}, err
	}
	if err := os.RemoveAll(to.parts); err != nil {
		return Report{}, fmt.Errorf("remove the parts: %w", err)
	}
	return r, nil
}

// join sums the parts' notes, and puts their rejects and prompts together and in place.
func (p *parts) join(to place) (Report, error) {
	r := Report{Store: to.store, Data: p.src.info.Name(), Rejects: map[string]int{}}
	var prompts []heldPrompt
	rejects, err := createRejects(to.rejects)
	if err != nil {
		return r, err
	}
	defer rejects.abort()
	for i := range p.done {
		n, err := p.read(i)
		if err != nil {
			return r, err
		}
		r.Rows += n.Rows
		r.Rejected += n.Rejected
		r.Cut += n.Cut
		r.Repeated += n.Repeated
		r.HeldOut += len(n.Held)
		for reason, k := range n.Rejects {
			r.Rejects[reason] += k
		}
		prompts = append(prompts, n.Prompts...)
		if n.Rejected == 0 {
			continue
		}
		if err := rejects.take(p.rejectFile(i), n.Rejected); err != nil {
			return r, err
		}
	}
	r.Documents = r.Rows - r.Rejected - r.Repeated - r.HeldOut
	if r.RejectFile, err = rejects.commit(); err != nil || len(prompts) == 0 {
		return r, err
	}
	b, err := json.MarshalIndent(prompts[:min(len(prompts), heldPrompts)], "", " ")
	if err != nil {
		return r, fmt.Errorf("write prompts: %w", err)
	}
	r.PromptFile = to.prompts
	return r, rundir.WriteFile(to.prompts, append(b, '\n'))
}

// take appends a part's rejects.
func (r *rejectFile) take(path string, rows int) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("join reject files: %w", err)
	}
	defer f.Close()
	if _, err := io.Copy(r.out, f); err != nil {
		return fmt.Errorf("join reject files: %w", err)
	}
	r.rows += rows
	return nil
}

// joinStores puts the parts' documents together in one store.
func (p *parts) joinStores(path string) error {
	if p.done == 1 {
		if err := os.Rename(p.storeFile(0), path); err != nil {
			return fmt.Errorf("put the store in place: %w", err)
		}
		return nil
	}
	w, err := store.Create(path, p.src.info)
	if err != nil {
		return err
	}
	defer w.Abort()
	var loss []uint8
	for n := range p.done {
		s, err := store.Open(p.storeFile(n))
		if err != nil {
			return err
		}
		for i := range s.Len() {
			ids, mask := s.Doc(i)
			loss = mask.AppendTo(loss[:0])
			if err := w.Add(s.Key(i), ids, loss); err != nil {
				s.Close()
				return err
			}
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	return w.Commit()
}
