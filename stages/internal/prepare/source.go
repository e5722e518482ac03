package prepare

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"penstock/schema/store"
	"penstock/stages/internal/chat"
	"penstock/stages/internal/tokenizer"
)

// version changes with anything in this package, the tokenizer or the chat code that changes what the same input gives.
const version = 4

// source is what a store is made of.
type source struct {
	tok      *tokenizer.Tokenizer
	template *chat.Template
	policy   chat.Policy
	heldOut  float64
	files    []dataFile
	info     store.Info
}

// dataFile is one file of rows with the hash of its content.
type dataFile struct {
	path string
	sum  [sha256.Size]byte
}

// openSource loads the model's text side and names the store by the content of everything that goes into it.
func openSource(ctx context.Context, o Options) (*source, error) {
	path := filepath.Join(o.ModelDir, "tokenizer.json")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	s := &source{heldOut: o.HeldOut}
	if s.policy, err = chat.ParsePolicy(o.Turns, o.Thinking); err != nil {
		return nil, err
	}
	files, err := Expand(o.Files)
	if err != nil {
		return nil, err
	}
	if s.tok, err = tokenizer.Parse(data); err != nil {
		return nil, fmt.Errorf("load tokenizer %q: %w", path, err)
	}
	if s.template, err = chat.Load(o.ModelDir, s.tok); err != nil {
		return nil, err
	}
	s.info = store.Info{
		Tokenizer: sha256.Sum256(data),
		Template:  s.template.Fingerprint(),
		Vocab:     uint32(s.tok.VocabSize()),
		MaxLength: uint32(o.MaxLength),
	}
	all := sha256.New()
	for _, n := range []uint32{version, store.Version, s.info.MaxLength} {
		all.Write(binary.LittleEndian.AppendUint32(nil, n))
	}
	fmt.Fprintf(all, "%+v %v ", s.policy, s.heldOut)
	all.Write(s.info.Tokenizer[:])
	all.Write(s.info.Template[:])
	for _, path := range files {
		sum, err := sumOf(ctx, path)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, dataFile{path, sum})
		all.Write(sum[:])
	}
	s.info.Data = [sha256.Size]byte(all.Sum(nil))
	return s, nil
}

func sumFile(ctx context.Context, path string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, reader{ctx, f}); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// reader reads until its context ends.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
