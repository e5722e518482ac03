package prepare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"penstock/schema/store"
	"penstock/stages/internal/rundir"
)

// A store comes about in parts, each of a fixed number of chunks, so that a preparation that was interrupted goes on where
// its last whole part ends. A part is a store with a note beside it that is written last.

// note says what a part has seen and what did not go into its store.
type note struct {
	Rows     int            `json:"rows"`
	Rejected int            `json:"rejected"`
	Rejects  map[string]int `json:"rejects"`
	Cut      int            `json:"cut"`
	Repeated int            `json:"repeated"`
	Held     []uint64       `json:"held"` // hashes of held-out documents
	Prompts  []heldPrompt   `json:"prompts"`
}

// heldPrompt is an entry of the prompt file.
type heldPrompt struct {
	ID     string `json:"id"`
	Prompt string `json:"prompt"`
}

// parts writes the parts of one store in order.
type parts struct {
	src  *source
	dir  string
	done int // whole parts, numbered from 0
	seen map[uint64]struct{}

	open    int // the part under way, -1 if there is none
	note    note
	store   *store.Writer
	rejects *rejectFile
}

func (p *parts) storeFile(n int) string { return filepath.Join(p.dir, fmt.Sprintf("%06d.store", n)) }
func (p *parts) rejectFile(n int) string {
	return filepath.Join(p.dir, fmt.Sprintf("%06d.rejects.jsonl", n))
}
func (p *parts) noteFile(n int) string { return filepath.Join(p.dir, fmt.Sprintf("%06d.json", n)) }

// openParts finds the whole parts that are there and what they have seen.
func openParts(src *source, dir string) (*parts, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of parts: %w", err)
	}
	p := &parts{src: src, dir: dir, open: -1, seen: map[uint64]struct{}{}}
	for ; ; p.done++ {
		n, err := p.read(p.done)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrDamaged) {
			return p, nil
		}
		if err != nil {
			return nil, err
		}
		s, err := store.Open(p.storeFile(p.done))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrDamaged) {
			return p, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range s.Len() {
			p.seen[s.Key(i)] = struct{}{}
		}
		if err := s.Close(); err != nil {
			return nil, err
		}
		for _, h := range n.Held {
			p.seen[h] = struct{}{}
		}
	}
}

func (p *parts) read(n int) (x note, err error) {
	b, err := os.ReadFile(p.noteFile(n))
	if err != nil {
		return x, err
	}
	if err := json.Unmarshal(b, &x); err != nil {
		return x, fmt.Errorf("%w: note %q: %w", store.ErrDamaged, p.noteFile(n), err)
	}
	return x, nil
}

// add takes the documents of one chunk, which belong to part n.
func (p *parts) add(n int, file string, docs []document) error {
	if p.open != n {
		if err := p.end(); err != nil {
			return err
		}
		if err := p.begin(n); err != nil {
			return err
		}
	}
	for _, d := range docs {
		p.note.Rows++
		if d.no != nil {
			p.note.Rejected++
			p.note.Rejects[d.no.reason]++
			if err := p.rejects.add(file, d.line, *d.no); err != nil {
				return err
			}
			continue
		}
		if _, again := p.seen[d.text]; again {
			p.note.Repeated++
			continue
		}
		p.seen[d.text] = struct{}{}
		if p.src.held(d.text) {
			p.hold(d)
			continue
		}
		if d.cut {
			p.note.Cut++
		}
		if err := p.store.Add(d.text, d.ids, d.mask); err != nil {
			return fmt.Errorf("%s:%d: %w", file, d.line, err)
		}
	}
	return nil
}

func (p *parts) hold(d document) {
	p.note.Held = append(p.note.Held, d.text)
	if d.prompt != "" {
		p.note.Prompts = append(p.note.Prompts, heldPrompt{fmt.Sprintf("%016x", d.text), d.prompt})
	}
}

func (p *parts) begin(n int) (err error) {
	p.note = note{Rejects: map[string]int{}}
	if p.store, err = store.Create(p.storeFile(n), p.src.info); err != nil {
		return err
	}
	if p.rejects, err = createRejects(p.rejectFile(n)); err != nil {
		p.store.Abort()
		return err
	}
	p.open = n
	return nil
}

// end makes the part under way whole.
func (p *parts) end() error {
	if p.open < 0 {
		return nil
	}
	if _, err := p.rejects.commit(); err != nil {
		return err
	}
	if err := p.store.Commit(); err != nil {
		return err
	}
	b, err := json.Marshal(p.note)
	if err != nil {
		return fmt.Errorf("write note: %w", err)
	}
	if err := rundir.WriteFile(p.noteFile(p.open), b); err != nil {
		return err
	}
	p.done, p.open = p.open+1, -1
	return nil
}

// abort leaves the part under way. After end it does nothing.
func (p *parts) abort() {
	if p.open >= 0 {
		p.store.Abort()
		p.rejects.abort()
		p.open = -1
	}
}
