package store

import (
	"context"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// Verify reads the whole store and checks it against its checksum and its index.
func (s *Store) Verify(ctx context.Context) error {
	const chunk = 16 << 20
	sum := xxhash.New()
	for blocks := s.data[headerSize : headerSize+s.header.BlockBytes]; len(blocks) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(chunk, len(blocks))
		sum.Write(blocks[:n]) // a hash takes everything
		blocks = blocks[n:]
	}
	if sum.Sum64() != s.header.BlockSum {
		return fmt.Errorf("verify store: %w: its documents do not match their checksum", ErrDamaged)
	}
	for i := range s.index {
		ids, mask := s.Doc(i)
		for _, id := range ids {
			if uint32(id) >= s.header.Info.Vocab {
				return fmt.Errorf("verify store: %w: document %d has id %d outside the vocabulary of %d", ErrDamaged, i, id, s.header.Info.Vocab)
			}
		}
		if mask.count() != int(s.index[i].Supervised) {
			return fmt.Errorf("verify store: %w: the mask of document %d does not match the index", ErrDamaged, i)
		}
	}
	return nil
}
