package regen

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"penstock/stages/internal/chat"
)

// progress is the file beside the output with a line for each row that is done, after a line that says of what.
type progress struct {
	out  string
	path string
	file *os.File
	done int // rows
	Report
}

// line is one row in the progress file.
type line struct {
	Messages []message       `json:"messages,omitempty"`
	Tools    json.RawMessage `json:"tools,omitempty"`
	Answers  int             `json:"answers,omitempty"`
	Kept     int             `json:"kept,omitempty"`
	Cut      int             `json:"cut,omitempty"`

	File   string `json:"file,omitempty"` // of a rejected row
	Line   int    `json:"line,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// message is a message as the output has it, null contents included.
type message struct {
	Role       string          `json:"role"`
	Content    *string         `json:"content"`
	Reasoning  string          `json:"reasoning_content,omitempty"`
	ToolCalls  json.RawMessage `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Name       string          `json:"name,omitempty"`
}

func messageOf(m chat.Message) message {
	out := message{m.Role, &m.Content, m.Reasoning, m.ToolCalls, m.ToolCallID, m.Name}
	if m.NoContent {
		out.Content = nil
	}
	return out
}

// header is the first line.
type header struct {
	Identity string `json:"identity"`
}

// openProgress goes on with the file of an earlier run, or begins one.
func openProgress(o Options, identity string) (*progress, error) {
	p := &progress{out: o.Out, path: o.Out + ".progress"}
	if _, err := os.Stat(o.Out); err == nil {
		return nil, fmt.Errorf("regenerate: %s is there already: remove it, or name another output", o.Out)
	}
	f, err := os.OpenFile(p.path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("regenerate: %w", err)
	}
	p.file = f
	if err := p.recover(identity); err != nil {
		return nil, errors.Join(fmt.Errorf("regenerate: %s: %w", p.path, err), f.Close())
	}
	p.Resumed = p.done
	return p, nil
}

// recover counts the whole lines and cuts off a torn last one.
func (p *progress) recover(identity string) error {
	in, whole, first := bufio.NewReaderSize(p.file, 1<<20), int64(0), true
	for {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if first {
			var h header
			if json.Unmarshal(text, &h) != nil || h.Identity != identity {
				return errors.New("holds rows of other data, another model or other settings: remove it to start again")
			}
			first = false
		} else {
			p.done++
		}
		whole += int64(len(text))
	}
	if err := p.file.Truncate(whole); err != nil {
		return err
	}
	if _, err := p.file.Seek(whole, io.SeekStart); err != nil {
		return err
	}
	if first {
		return p.write(header{identity})
	}
	return nil
}

func (p *progress) write(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = p.file.Write(append(b, '\n'))
	return err
}

// add writes down one row.
func (p *progress) add(r result) error {
	if r.fatal != nil {
		return fmt.Errorf("%s:%d: %w", r.row.File, r.row.Line, r.fatal)
	}
	l := line{Tools: r.row.Talk.Tools, Answers: r.answers, Kept: r.kept, Cut: r.cut}
	for _, m := range r.row.Talk.Messages {
		l.Messages = append(l.Messages, messageOf(m))
	}
	if r.no != "" {
		l = line{File: r.row.File, Line: r.row.Line, Reason: r.no}
	}
	if err := p.write(l); err != nil {
		return err
	}
	p.done++
	return nil
}

// finish puts the output and the reject file in place.
func (p *progress) finish() (Report, error) {
	r := p.Report
	r.Out, r.Rows = p.out, p.done
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return r, err
	}
	out, err := os.CreateTemp(filepath.Dir(p.out), ".regen-*")
	if err != nil {
		return r, fmt.Errorf("regenerate: %w", err)
	}
	defer os.Remove(out.Name())
	defer out.Close()
	var rejects bytes.Buffer
	w, in := bufio.NewWriterSize(out, 1<<20), bufio.NewReaderSize(p.file, 1<<20)
	for n := 0; ; n++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return r, err
		}
		if n == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return r, fmt.Errorf("%s: row %d: %w", p.path, n, err)
		}
		if l.Reason != "" {
			r.Rejected++
			rejects.Write(text)
			continue
		}
		r.Rewritten++
		r.Answers, r.Kept, r.Cut = r.Answers+l.Answers, r.Kept+l.Kept, r.Cut+l.Cut
		l.Answers, l.Kept, l.Cut = 0, 0, 0
		b, err := json.Marshal(l)
		if err != nil {
			return r, err
		}
		if _, err := w.Write(append(b, '\n')); err != nil {
			return r, err
		}
	}
	if rejects.Len() > 0 {
		r.RejectFile = p.out + ".rejects.jsonl"
		if err := os.WriteFile(r.RejectFile, rejects.Bytes(), 0o644); err != nil {
			return r, err
		}
	}
	if err := errors.Join(w.Flush(), out.Chmod(0o644), out.Sync(), os.Rename(out.Name(), p.out)); err != nil {
		return r, fmt.Errorf("regenerate: write %s: %w", p.out, err)
	}
	if err := os.Remove(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	return r, nil
}

func (p *progress) close() { p.file.Close() }
