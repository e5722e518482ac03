package broker

import (
	"context"
	"errors"
	"fmt"
	neturl "net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	minWait    = 2 * time.Millisecond
	maxWait    = 64 * time.Millisecond
	tryTimeout = 2 * time.Second // one request to a server that is there
	dialWait   = 250 * time.Millisecond
)

// Options of a connection. The zero value is usable.
type Options struct {
	Access
	// OnError is told what cannot be returned to a caller: a lost connection, a request that is being retried, a
	// record that was terminated because it does not decode. It must not block.
	OnError func(error)
	// Inject adds headers, such as a trace context, to every published record.
	Inject func(ctx context.Context, header map[string][]string)
	// OnRedelivery is told the subject of each record that came again. It must not block.
	OnRedelivery func(subject string)
	// Fault, for tests, decides what becomes of each operation.
	Fault Fault
}

// Conn is one client's connection to a NATS server with JetStream, the embedded one or any other. It is safe for
// concurrent use and reconnects for as long as it is open.
type Conn struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	url  string
	opts Options

	denials denials

	mu      sync.Mutex
	session context.Context // ends when the present connection to a server breaks
	end     context.CancelFunc
	closed  chan struct{}
}

// Dial connects as name, which also prefixes the inboxes. A server that is not there yet is waited for until ctx
// ends, with each new reason reported to OnError; one that refuses the client or lacks JetStream is an error at once.
func Dial(ctx context.Context, url, name string, opts Options) (*Conn, error) {
	if err := CheckToken("client name", name); err != nil {
		return nil, err
	}
	if err := checkURL(url); err != nil {
		return nil, err
	}
	if opts.OnError == nil {
		opts.OnError = func(error) {}
	}
	c := &Conn{url: url, opts: opts, closed: make(chan struct{})}
	options, err := c.access(name)
	if err != nil {
		return nil, err
	}
	c.begin()
	last := ""
	for {
		nc, err := nats.Connect(url, options...)
		if err == nil {
			c.nc = nc
			break
		}
		err = fmt.Errorf("connect to broker %s: %w", url, err)
		if !isAbsence(err) {
			return nil, err
		}
		if err.Error() != last {
			last = err.Error()
			opts.OnError(err)
		}
		if sleep(ctx, dialWait) != nil {
			return nil, fmt.Errorf("%w (waited until: %w)", err, context.Cause(ctx))
		}
	}
	js, err := jetstream.New(c.nc)
	if err == nil {
		c.js = js
		err = c.retry(ctx, "ask for JetStream", func(ctx context.Context) error {
			_, err := js.AccountInfo(ctx)
			return err
		})
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("broker %s: %w (a nats-server needs -js)", url, err)
	}
	return c, nil
}

// access adds what proves who the client is.
func (c *Conn) access(name string) ([]nats.Option, error) {
	options := c.natsOptions(name)
	a := c.opts.Access
	if a.Role != "" {
		options = append(options, nats.CustomInboxPrefix(inboxOf(a.Role)+"."+name))
	}
	if a.Key != "" {
		key, err := nats.NkeyOptionFromSeed(a.Key)
		if err != nil {
			return nil, fmt.Errorf("key of %s: %w", name, err)
		}
		options = append(options, key)
	}
	if a.Credentials != "" {
		options = append(options, nats.UserCredentials(a.Credentials))
	}
	if a.CA != "" {
		options = append(options, nats.RootCAs(a.CA))
	}
	return options, nil
}

// checkURL refuses what the client would take for a server that is not there yet.
func checkURL(list string) error {
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		if !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		u, err := neturl.Parse(one)
		if err != nil {
			return errors.New("broker URL: it cannot be read: use nats://HOST:PORT")
		}
		if !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) || u.Hostname() == "" {
			return fmt.Errorf("broker URL %q: use nats://HOST:PORT, or tls://, ws:// or wss://", u.Redacted())
		}
		if u.User != nil {
			return fmt.Errorf("broker URL %q has a secret in it: put it into a credentials file", u.Redacted())
		}
	}
	return nil
}

func (c *Conn) natsOptions(name string) []nats.Option {
	return []nats.Option{
		nats.Name(name), nats.CustomInboxPrefix("_INBOX_" + name), nats.Timeout(tryTimeout),
		nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(20*time.Millisecond, 20*time.Millisecond),
		// A request of a broken connection must fail and be tried again: sent later, its answer would reach nobody.
		nats.ReconnectBufSize(-1),
		nats.PingInterval(10 * time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			c.endSession()
			if err != nil {
				c.opts.OnError(fmt.Errorf("connection to broker %s lost: %w", c.url, err))
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { c.begin() }),
		nats.ClosedHandler(func(*nats.Conn) { c.endSession(); close(c.closed) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			if sub != nil {
				err = fmt.Errorf("subscription %s: %w", sub.Subject, err)
			}
			c.denials.notice(err)
			c.opts.OnError(fmt.Errorf("broker %s: %w", c.url, err))
		}),
	}
}

// URL returns the address that was dialled.
func (c *Conn) URL() string { return c.url }

// Connected reports whether a server answers now.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// Ping returns once the server has answered, or an error when ctx ends before.
func (c *Conn) Ping(ctx context.Context) error { return c.nc.FlushWithContext(ctx) }

// Close ends the connection and its callbacks. Pulls that are still open end with ErrClosed.
func (c *Conn) Close() {
	c.nc.Close()
	<-c.closed
}

func (c *Conn) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil {
		c.end()
	}
	c.session, c.end = context.WithCancel(context.Background())
}

func (c *Conn) endSession() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
}

func (c *Conn) current() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// retry calls try until it succeeds, fails for good or ctx ends. One try ends when the connection breaks, so that
// its successor starts with the next connection. The first transient failure is reported.
func (c *Conn) retry(ctx context.Context, what string, try func(context.Context) error) error {
	for wait, told := minWait, false; ; wait = min(2*wait, maxWait) {
		one, cancel := context.WithTimeout(ctx, tryTimeout)
		stop := context.AfterFunc(c.current(), cancel)
		a := c.denials.begin(what, cancel)
		err := try(one)
		stop()
		cancel()
		if subject := c.denials.done(a); subject != "" && err != nil {
			return fmt.Errorf("%s: %w: %s", what, ErrDenied, subject)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, nats.ErrConnectionClosed):
			return fmt.Errorf("%s: %w", what, ErrClosed)
		case !isTransient(err):
			return fmt.Errorf("%s: %w", what, err)
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w (last: %v)", what, context.Cause(ctx), err)
		}
		if !told {
			told = true
			c.opts.OnError(fmt.Errorf("%s: %w; trying again", what, err))
		}
		if sleep(ctx, wait) != nil {
			return fmt.Errorf("%s: %w (last: %v)", what, context.Cause(ctx), err)
		}
	}
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
