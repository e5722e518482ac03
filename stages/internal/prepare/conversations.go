package prepare

import (
	"context"
	"crypto/sha256"
	"fmt"

	"penstock/stages/internal/chat"
)

// Row is one row of some data files: a conversation, or why it is none.
type Row struct {
	File string
	Line int // from 1
	Talk chat.Conversation
	No   error // nil for a conversation
}

// Sum is a hash of what data files hold, named as Expand takes them, in order.
func Sum(ctx context.Context, names []string) (string, error) {
	files, err := Expand(names)
	if err != nil {
		return "", err
	}
	all := sha256.New()
	for _, path := range files {
		sum, err := sumOf(ctx, path)
		if err != nil {
			return "", err
		}
		all.Write(sum[:])
	}
	return fmt.Sprintf("%x", all.Sum(nil)), nil
}

func sumOf(ctx context.Context, path string) ([sha256.Size]byte, error) {
	sum, err := sumFile(ctx, path)
	if err != nil {
		return sum, fmt.Errorf("read data file %q: %w", path, err)
	}
	return sum, nil
}

// Conversations reads the rows of data files, named as Expand takes them, in order. Rows that are tokenised already are
// no conversations.
func Conversations(ctx context.Context, names []string, emit func(Row) error) error {
	files, err := Expand(names)
	if err != nil {
		return err
	}
	for _, path := range files {
		sum, err := sumOf(ctx, path)
		if err != nil {
			return err
		}
		err = readChunks(ctx, dataFile{path, sum}, func(c chunk) error {
			for _, raw := range c.rows {
				row := Row{File: path, Line: raw.line}
				s, no := parseRow(raw)
				if row.Talk = s.talk; no == nil && s.ids != nil {
					no = refuse(NoMessages, "the row holds tokens, not messages")
				}
				if no != nil {
					row.No = no
				}
				if err := emit(row); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read data file %q: %w", path, err)
		}
	}
	return nil
}
