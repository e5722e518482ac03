package prepare

import (
	"context"
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

// Conversations reads the rows of data files, named as Expand takes them, in order. Rows that are tokenised already are
// no conversations.
func Conversations(ctx context.Context, names []string, emit func(Row) error) error {
	files, err := Expand(names)
	if err != nil {
		return err
	}
	for _, path := range files {
		sum, err := sumFile(ctx, path)
		if err != nil {
			return fmt.Errorf("read data file %q: %w", path, err)
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
