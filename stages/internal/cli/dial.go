package cli

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"penstock/broker"
	"penstock/stages/internal/runtime"
)

// adviseAfter is how long `up` waits for an external server without a word.
const adviseAfter = time.Second

// dial connects to the run's broker. An external server that is not there is waited for, with advice.
func (r *running) dial(ctx context.Context, addr string) (*broker.Conn, error) {
	var advise <-chan time.Time // of the run's own broker there is nothing to say
	if r.cfg.Broker.URL != "" {
		advise = time.After(adviseAfter)
	}
	type result struct {
		conn *broker.Conn
		err  error
	}
	dialled := make(chan result, 1)
	go func() {
		conn, err := broker.Dial(ctx, addr, "up", broker.Options{
			Access: runtime.Access(r.dir, r.cfg, broker.RoleUp), OnError: func(err error) { r.log.Warn("broker", "err", err) }})
		dialled <- result{conn, err}
	}()
	for {
		select {
		case <-advise:
			r.display.say("%s", absent(addr))
		case d := <-dialled:
			return d.conn, d.err
		}
	}
}

// absent says what is waited for where nothing answers, and what to do.
func absent(addr string) string {
	port := "4222"
	if u, err := url.Parse(addr); err == nil && u.Port() != "" {
		port = u.Port()
	}
	return fmt.Sprintf("waiting for a NATS server at %s, up to %v: start one there with `nats-server -js -p %s`, mend the address, or leave --nats out for the run's own broker",
		addr, brokerWait, port)
}
