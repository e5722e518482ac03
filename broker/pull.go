package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	parkFor  = 10 * time.Second     // how long a request waits on the server before it is renewed
	parkLate = 2 * time.Second      // how much later its end may be announced
	glance   = 3 * time.Millisecond // how long the server looks for a message for whoever does not wait
)

// pull asks one consumer for messages over an inbox that outlives a call. So an answer that comes after its caller
// gave up is not dropped, which would leak it until AckWait ends: the next call returns it, or close hands it back.
// One request is outstanding at a time. One goroutine uses it; close comes after the last call has returned.
type pull struct {
	c                *Conn
	stream, consumer string
	batch            int
	limited          bool // the consumer may reach its limit of open messages
	subject          string

	inbox   string
	sub     *nats.Subscription
	msgs    chan *nats.Msg
	drained chan struct{}
	asks    *attempt      // the requests on subject, for a refusal
	refused chan struct{} // closed by one

	mu      sync.Mutex
	serial  int             // of the latest request, the last token of its reply subject
	left    int             // messages that the latest request may still bring
	until   time.Time       // when the server ends it, if it is parked
	session context.Context // that it was sent in
}

func newPull(c *Conn, stream, consumer string, batch int, limited bool) (*pull, error) {
	p := &pull{
		c: c, stream: stream, consumer: consumer, batch: batch, limited: limited,
		subject: "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer,
		inbox:   c.nc.NewInbox() + ".",
		msgs:    make(chan *nats.Msg, 4*batch+16), drained: make(chan struct{}), refused: make(chan struct{}),
	}
	var err error
	if p.sub, err = c.nc.ChanSubscribe(p.inbox+"*", p.msgs); err != nil {
		return nil, p.wrap(err)
	}
	var drained, refused sync.Once // either is told more than once
	p.sub.SetClosedHandler(func(string) { drained.Do(func() { close(p.drained) }) })
	p.asks = c.denials.begin(p.subject, func() { refused.Do(func() { close(p.refused) }) })
	return p, nil
}

// request asks for up to p.batch messages that are there now, or that come while the request is parked.
func (p *pull) request(park time.Duration, noWait bool) error {
	p.serial++
	p.left, p.session, p.until = p.batch, p.c.current(), time.Now().Add(park)
	body, err := json.Marshal(struct {
		Batch   int           `json:"batch"`
		NoWait  bool          `json:"no_wait,omitempty"`
		Expires time.Duration `json:"expires,omitempty"`
	}{p.batch, noWait, park})
	if err == nil {
		err = p.c.nc.PublishRequest(p.subject, p.inbox+strconv.Itoa(p.serial), body)
	}
	if err != nil {
		p.left = 0
	}
	return err
}

// take returns one message if there is one now, else ErrEmpty. What came after an earlier call had ended comes first, or
// it would be held for nothing. A consumer whose limit is reached does not answer a request that does not wait: it keeps
// it until the limit gives, when nobody may want the message any more. Nor can a request be withdrawn: what the server
// has chosen for it may not be on its way yet, and would be lost with the inbox until AckWait ends. So such a consumer is
// asked to wait for a moment, after which the server ends the request itself.
func (p *pull) take(ctx context.Context) (*nats.Msg, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := time.NewTimer(tryTimeout)
	defer late.Stop()
	for asked := p.left > 0 && p.session.Err() == nil; ; {
		if !asked && len(p.msgs) == 0 {
			park := time.Duration(0)
			if p.limited {
				park = glance
			}
			if err := p.request(park, !p.limited); err != nil {
				return nil, p.wrap(err)
			}
			asked = true
		}
		select {
		case m := <-p.msgs:
			if isDelivery(m) {
				p.left = max(0, p.left-1)
				return m, nil
			}
			if err := p.status(ctx, m); err != nil {
				return nil, err
			}
			if asked && p.left == 0 {
				return nil, ErrEmpty
			}
		case <-p.session.Done():
			return nil, p.wrap(nats.ErrDisconnected)
		case <-late.C:
			p.left = 0
			return nil, p.wrap(nats.ErrTimeout)
		case <-p.refused:
			return nil, p.wrap(ErrDenied)
		case <-p.drained:
			return nil, p.wrap(ErrClosed)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// drain stops listening; what the server has sent before it knows is in p.msgs afterwards. A server that does not
// answer is waited for until ctx ends, and not for long.
func (p *pull) drain(ctx context.Context) {
	if p.c.Connected() {
		_ = p.sub.Drain() // fails only if the subscription is closed already
	} else {
		_ = p.sub.Unsubscribe() // the server forgot us with the connection
	}
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	select {
	case <-p.drained:
	case <-ctx.Done():
	}
}

// next waits for a message until ctx ends, through lost connections and restarts of the server.
func (p *pull) next(ctx context.Context) (*nats.Msg, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := time.NewTimer(time.Until(p.until) + parkLate)
	defer late.Stop()
	for wait := minWait; ; {
		if p.left == 0 || p.session.Err() != nil {
			if err := p.request(parkFor, false); errors.Is(err, nats.ErrConnectionClosed) {
				return nil, p.wrap(ErrClosed)
			} else if err != nil || p.session.Err() != nil { // not connected now
				if sleep(ctx, wait) != nil {
					return nil, context.Cause(ctx)
				}
				wait = min(2*wait, maxWait)
				continue
			}
			late.Reset(parkFor + parkLate)
		}
		select {
		case m := <-p.msgs:
			if isDelivery(m) {
				p.left = max(0, p.left-1)
				return m, nil
			}
			if err := p.status(ctx, m); err != nil {
				return nil, err
			}
		case <-p.session.Done():
		case <-late.C:
			p.left = 0
			if err := p.exists(ctx); err != nil {
				return nil, err
			}
		case <-p.refused:
			return nil, p.wrap(ErrDenied)
		case <-p.drained:
			return nil, p.wrap(ErrClosed)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func isDelivery(m *nats.Msg) bool { return m.Reply != "" && m.Header.Get("Status") == "" }

// status reads what the server says instead of a message: the latest request is over, or the consumer is.
func (p *pull) status(ctx context.Context, m *nats.Msg) error {
	if m.Subject != p.inbox+strconv.Itoa(p.serial) {
		return nil // the end of an earlier request
	}
	code, text := m.Header.Get("Status"), m.Header.Get("Description")
	switch code {
	case "100": // idle
		return nil
	case "404", "408": // nothing there; time is up
		p.left = 0
		return nil
	case "503": // nobody listens: the server is starting, or the consumer is gone
		p.left = 0
		if err := p.exists(ctx); err != nil {
			return err
		}
		return sleep(ctx, minWait)
	case "409":
		p.left = 0
		switch {
		case strings.Contains(text, "Consumer Deleted"):
			return p.wrap(ErrGone)
		case strings.Contains(text, "MaxWaiting"), strings.Contains(text, "Shutdown"), strings.Contains(text, "Leadership"):
			return sleep(ctx, maxWait)
		}
	}
	return p.wrap(fmt.Errorf("server answers %s %s", code, text))
}

// exists returns ErrGone if the server knows the consumer no longer.
func (p *pull) exists(ctx context.Context) error {
	_, err := p.c.consumerInfo(ctx, p.stream, p.consumer)
	return err
}

func (p *pull) wrap(err error) error { return fmt.Errorf("pull from %s: %w", p.consumer, err) }

// close ends the pull. What arrived and was not returned is handed to back.
func (p *pull) close(ctx context.Context, back func(*nats.Msg)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.c.denials.done(p.asks)
	p.drain(ctx)
	for {
		select {
		case m := <-p.msgs:
			if isDelivery(m) {
				back(m)
			}
		default:
			return
		}
	}
}
