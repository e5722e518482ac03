package worker

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"penstock/schema"
)

// longestNote is in bytes.
const longestNote = 500

// notes passes a process's warnings on to the board as well, where the supervisor shows them: what is wrong with a run must
// not be found in a log alone. Of many at once some stay there.
type notes struct {
	slog.Handler
	attrs string
	queue chan string
}

func newNotes(log *slog.Logger) *notes {
	return &notes{Handler: log.Handler(), queue: make(chan string, 16)}
}

// Handle implements [slog.Handler].
func (n *notes) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		var text strings.Builder
		text.WriteString(r.Message + n.attrs)
		r.Attrs(func(a slog.Attr) bool {
			fmt.Fprintf(&text, " %s=%v", a.Key, a.Value)
			return true
		})
		n.pass(text.String())
	}
	return n.Handler.Handle(ctx, r)
}

func (n *notes) pass(text string) {
	select {
	case n.queue <- text:
	default:
	}
}

// WithAttrs implements [slog.Handler].
func (n *notes) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *n
	with.Handler = n.Handler.WithAttrs(attrs)
	for _, a := range attrs {
		with.attrs += fmt.Sprintf(" %s=%v", a.Key, a.Value)
	}
	return &with
}

// WithGroup implements [slog.Handler].
func (n *notes) WithGroup(name string) slog.Handler {
	with := *n
	with.Handler = n.Handler.WithGroup(name)
	return &with
}

// run puts notes on the board until ctx ends.
func (n *notes) run(ctx context.Context, w *Worker) error {
	for {
		select {
		case text := <-n.queue:
			if err := n.put(ctx, w, text); err != nil {
				n.pass(text) // to last
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// last puts on the board what was said after run's context had ended, for a short time at most.
func (n *notes) last(ctx context.Context, w *Worker) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quietBoard)
	defer cancel()
	for {
		select {
		case text := <-n.queue:
			if err := n.put(ctx, w, text); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (n *notes) put(ctx context.Context, w *Worker, text string) error {
	return w.Conn.Board().Put(ctx, "note."+w.Instance, schema.Note{Instance: w.Instance, Text: clip(text), At: time.Now().UnixNano()})
}

// clip makes a text one line of at most longestNote bytes.
func clip(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?")
	for len(text) > longestNote {
		_, last := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-last]
	}
	return text
}
