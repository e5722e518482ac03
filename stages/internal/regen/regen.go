// Package regen rewrites the answers of conversations with the target, through any OpenAI-compatible server: a drafter must
// learn what its target says.
//
// Conversations keep their order. What is done is kept row by row beside the output, so that an interrupted run goes on.
package regen

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"penstock/stages/internal/chat"
	"penstock/stages/internal/prepare"
)

// Options say what is rewritten, and by whom.
type Options struct {
	Endpoint    string   // base address, such as http://localhost:8000/v1
	Key         string   // bearer token; empty for none
	Model       string   // as the server names it
	Files       []string // data files, as prepare takes them
	Out         string   // JSON lines
	Concurrency int      // conversations at a time
	Tries       int      // of one request, before the run stops
	MaxTokens   int      // of an answer; 0 leaves it to the server
	Temperature float64
	Wait        time.Duration // before the second try; 0 for a second
}

// Report says what came of it.
type Report struct {
	Out        string  `json:"out"`
	Rows       int     `json:"rows"`
	Rewritten  int     `json:"rewritten"` // conversations
	Answers    int     `json:"answers"`
	Kept       int     `json:"kept"` // turns that call tools, whose results stand in the data
	Cut        int     `json:"cut"`  // answers that reached the most tokens
	Resumed    int     `json:"resumed"`
	Rejected   int     `json:"rejected"`
	RejectFile string  `json:"reject_file"` // empty without rejects
	Seconds    float64 `json:"seconds"`
}

// String is the report in words.
func (r Report) String() string {
	s := fmt.Sprintf("%s: %d of %d conversations, %d answers rewritten (%d cut), %d turns with tools kept", r.Out, r.Rewritten, r.Rows, r.Answers, r.Cut, r.Kept)
	if r.Rejected > 0 {
		s += fmt.Sprintf("\n%d rejected: %s", r.Rejected, r.RejectFile)
	}
	return s
}

func (o Options) check() error {
	var errs []error
	if u, err := url.Parse(o.Endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		errs = append(errs, fmt.Errorf("endpoint %q is no address such as http://localhost:8000/v1", o.Endpoint))
	}
	if o.Model == "" {
		errs = append(errs, errors.New("no model: name it as the server does"))
	}
	if len(o.Files) == 0 || o.Out == "" {
		errs = append(errs, errors.New("name data files and an output"))
	}
	if o.Concurrency < 1 || o.Tries < 1 {
		errs = append(errs, fmt.Errorf("concurrency %d and tries %d must be at least 1", o.Concurrency, o.Tries))
	}
	return errors.Join(errs...)
}

// identity changes with anything that changes the output, the content of the data files included.
func (o Options) identity(ctx context.Context) (string, error) {
	sum, err := prepare.Sum(ctx, o.Files)
	if err != nil {
		return "", fmt.Errorf("regenerate: %w", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q %s %d %g", o.Model, sum, o.MaxTokens, o.Temperature))), nil
}

// Run rewrites the answers. A server that stays away, or that refuses every request alike, stops it with an error; run
// again, it goes on. A single conversation that the server refuses is rejected.
func Run(ctx context.Context, o Options) (Report, error) {
	start := time.Now()
	if err := o.check(); err != nil {
		return Report{}, err
	}
	c := &client{http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.Concurrency, Proxy: http.ProxyFromEnvironment}},
		url: strings.TrimSuffix(o.Endpoint, "/") + "/chat/completions", key: o.Key, model: o.Model, most: o.MaxTokens, heat: o.Temperature,
		tries: o.Tries, wait: o.Wait}
	if c.wait == 0 {
		c.wait = time.Second
	}
	defer c.http.CloseIdleConnections()
	identity, err := o.identity(ctx)
	if err != nil {
		return Report{}, err
	}
	p, err := openProgress(o, identity)
	if err != nil {
		return Report{}, err
	}
	defer p.close()
	seen, resumed := 0, p.done
	err = prepare.Ordered(ctx, o.Concurrency,
		func(ctx context.Context, emit func(prepare.Row) error) error {
			return prepare.Conversations(ctx, o.Files, func(r prepare.Row) error {
				if seen++; seen <= resumed {
					return ctx.Err()
				}
				return emit(r)
			})
		},
		func(r prepare.Row) result { return c.rewrite(ctx, r) },
		p.add)
	if err != nil {
		return Report{}, fmt.Errorf("regenerate: %w (%d rows are done and kept; run again to go on)", err, p.done)
	}
	r, err := p.finish()
	r.Seconds = time.Since(start).Seconds()
	return r, err
}

// result is what became of one row.
type result struct {
	row           prepare.Row
	answers, kept int
	cut           int
	no            string // why it is rejected
	fatal         error
}

// rewrite has every answer of a conversation written anew, each after the new ones before it. Turns that call tools stay,
// since the results that follow belong to them.
func (c *client) rewrite(ctx context.Context, row prepare.Row) result {
	r := result{row: row}
	if row.No != nil {
		r.no = row.No.Error()
		return r
	}
	talk := chat.Conversation{Tools: row.Talk.Tools}
	for _, m := range row.Talk.Messages {
		switch {
		case m.Role == chat.Assistant && len(m.ToolCalls) > 0:
			r.kept++
		case m.Role == chat.Assistant:
			answer, cut, err := c.answer(ctx, talk)
			var no *refused
			if errors.As(err, &no) && (no.status == http.StatusBadRequest || no.status == http.StatusRequestEntityTooLarge || no.status == http.StatusUnprocessableEntity) {
				r.no = no.Error()
				return r
			}
			if err != nil {
				r.fatal = err
				return r
			}
			if len(answer.ToolCalls) > 0 && m.ToolCalls == nil {
				r.no = "the target calls a tool where the data has an answer"
				return r
			}
			if cut {
				r.cut++
			}
			r.answers++
			m = answer
		}
		talk.Messages = append(talk.Messages, m)
	}
	r.row.Talk = talk
	return r
}
