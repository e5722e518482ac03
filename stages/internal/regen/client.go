package regen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"penstock/stages/internal/chat"
)

// maxReply bounds what is read of an answer.
const maxReply = 64 << 20

// client asks an OpenAI-compatible server.
type client struct {
	http  *http.Client
	url   string
	key   string
	model string
	most  int // tokens of an answer
	heat  float64
	tries int
	wait  time.Duration // before the second try; it doubles
}

// refused is a request that the server will not answer however often it is sent.
type refused struct {
	status int
	text   string
}

func (r *refused) Error() string { return fmt.Sprintf("the server answers %d: %s", r.status, r.text) }

// passing is a failure that may pass.
type passing struct {
	err   error
	after time.Duration // that the server asks to wait
}

func (p *passing) Error() string { return p.err.Error() }
func (p *passing) Unwrap() error { return p.err }

// answer asks for the next turn of a conversation, again where a failure may pass. cut tells that the answer reached its
// most tokens.
func (c *client) answer(ctx context.Context, talk chat.Conversation) (m chat.Message, cut bool, err error) {
	body, err := c.body(talk)
	if err != nil {
		return m, false, err
	}
	wait := c.wait
	for try := 1; ; try++ {
		m, cut, err = c.once(ctx, body)
		var p *passing
		if err == nil || !errors.As(err, &p) || ctx.Err() != nil {
			return m, cut, err
		}
		if try >= c.tries {
			return m, false, fmt.Errorf("after %d tries: %w", try, err)
		}
		pause := max(p.after, wait/2+rand.N(wait/2+1))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return m, false, ctx.Err()
		}
		wait = min(2*wait, 30*time.Second)
	}
}

func (c *client) body(talk chat.Conversation) ([]byte, error) {
	type message struct {
		Role       string          `json:"role"`
		Content    *string         `json:"content"`
		ToolCalls  json.RawMessage `json:"tool_calls,omitempty"`
		ToolCallID string          `json:"tool_call_id,omitempty"`
		Name       string          `json:"name,omitempty"`
	}
	request := struct {
		Model       string          `json:"model"`
		Messages    []message       `json:"messages"`
		Tools       json.RawMessage `json:"tools,omitempty"`
		MaxTokens   int             `json:"max_tokens,omitempty"`
		Temperature float64         `json:"temperature"`
	}{c.model, nil, talk.Tools, c.most, c.heat}
	for _, m := range talk.Messages {
		out := message{Role: m.Role, Content: &m.Content, ToolCallID: m.ToolCallID, Name: m.Name}
		if m.NoContent {
			out.Content = nil
		}
		var err error
		if out.ToolCalls, err = asSent(m.ToolCalls); err != nil {
			return nil, err
		}
		request.Messages = append(request.Messages, out)
	}
	return json.Marshal(request)
}

// asSent writes tool calls as the protocol has them: with their arguments as text.
func asSent(calls json.RawMessage) (json.RawMessage, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	var list []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments any    `json:"arguments"`
		} `json:"function"`
	}
	if err := json.Unmarshal(calls, &list); err != nil {
		return nil, err
	}
	for i := range list {
		f := &list[i].Function
		if _, text := f.Arguments.(string); !text {
			b, err := json.Marshal(f.Arguments)
			if err != nil {
				return nil, err
			}
			f.Arguments = string(b)
		}
	}
	return json.Marshal(list)
}

// once sends one request.
func (c *client) once(ctx context.Context, body []byte) (m chat.Message, cut bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return m, false, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return m, false, &passing{err: err}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	switch {
	case err != nil:
		return m, false, &passing{err: fmt.Errorf("read the answer: %w", err)}
	case res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusRequestTimeout, res.StatusCode >= 500:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return m, false, &passing{&refused{res.StatusCode, short(text)}, time.Duration(min(seconds, 300)) * time.Second}
	case res.StatusCode != http.StatusOK:
		return m, false, &refused{res.StatusCode, short(text)}
	}
	return parseAnswer(text)
}

func parseAnswer(text []byte) (m chat.Message, cut bool, err error) {
	var reply struct {
		Choices []struct {
			Message struct {
				Content    *string         `json:"content"`
				Reasoning  string          `json:"reasoning_content"`
				Reasoning2 string          `json:"reasoning"`
				ToolCalls  json.RawMessage `json:"tool_calls"`
			} `json:"message"`
			Finish string `json:"finish_reason"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return m, false, &passing{err: fmt.Errorf("the answer is torn, or not JSON: %w", err)}
	}
	if len(reply.Choices) == 0 {
		return m, false, &passing{err: fmt.Errorf("the answer holds no choice: %s", short(text))}
	}
	got := reply.Choices[0]
	m = chat.Message{Role: chat.Assistant, Reasoning: got.Message.Reasoning}
	if m.Reasoning == "" {
		m.Reasoning = got.Message.Reasoning2
	}
	if got.Message.Content != nil {
		m.Content = *got.Message.Content
	} else {
		m.NoContent = true
	}
	if calls := strings.TrimSpace(string(got.Message.ToolCalls)); calls != "" && calls != "null" && calls != "[]" {
		m.ToolCalls = got.Message.ToolCalls
	}
	if m.NoContent && m.Reasoning == "" && len(m.ToolCalls) == 0 {
		return m, false, &passing{err: fmt.Errorf("the answer says nothing: %s", short(text))}
	}
	return m, got.Finish == "length", nil
}

func short(text []byte) string {
	s := strings.Join(strings.Fields(string(text)), " ")
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return strings.ToValidUTF8(s, "")
}
