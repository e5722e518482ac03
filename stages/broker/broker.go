// Package broker is the stage that the others meet at: an embedded NATS server in the run directory.
package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"syscall"

	nats "penstock/broker"
	"penstock/stages/internal/observe"
	"penstock/stages/internal/runtime"
)

// Run is the stage. It writes its address to the run directory once it is ready, and serves until ctx ends.
func Run(ctx context.Context, env *runtime.Env) error {
	b := env.Config.Broker
	if b.URL != "" {
		return runtime.Permanent(fmt.Errorf("the configuration names an external NATS server, %s: no broker is needed", b.URL))
	}
	if err := bindable(b.Host); err != nil {
		return runtime.Permanent(err)
	}
	obs, err := observe.Open(ctx, env)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := obs.Close(ctx); cerr != nil {
			env.Log.Warn("metrics", "err", cerr)
		}
	}()
	if b.Port == 0 {
		b.Port = formerPort(env, b.Host)
	}
	serving, take := untilFull(ctx)
	err = serve(serving, env, obs, nats.ServerConfig{
		Host: b.Host, Port: b.Port, Store: env.Run.BrokerStore(), Sync: b.Sync, URLFile: env.Run.URLFile(),
		Keys: env.Run.Keys(), TLSCert: b.TLSCert, TLSKey: b.TLSKey, CA: b.TLSCA,
		Log: func(line string) {
			env.Log.Warn("nats-server", "line", line)
			take(line)
		},
	})
	if cause := context.Cause(serving); errors.Is(cause, errFull) {
		err = cause
	}
	if errors.Is(err, errFull) || errors.Is(err, syscall.ENOSPC) {
		awaitRoom(ctx, env.Run.BrokerStore())
	}
	return err
}

// serve runs the server until ctx ends.
func serve(ctx context.Context, env *runtime.Env, obs *observe.Observer, cfg nats.ServerConfig) error {
	s, err := nats.StartServer(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	obs.Metrics.WatchStreams(env.Run.Name(), s.Stored)
	if err := writeContext(env, s.URL()); err != nil {
		return err
	}
	env.Log.Info("ready", "url", s.URL())
	if err := s.Wait(ctx); err != nil {
		return err
	}
	return errors.New("the NATS server has stopped by itself")
}

// bindable tries the host with any free port: a port in use may get free, an address that is not here stays away.
func bindable(host string) error {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return fmt.Errorf("broker.host: %s cannot be bound: %w: name an address of this machine, such as 127.0.0.1", host, err)
	}
	return l.Close()
}

// formerPort is the port on which the run's clients expect a broker that was restarted, if it is still free; else 0.
func formerPort(env *runtime.Env, host string) int {
	former, err := env.Run.URL()
	if err != nil {
		return 0
	}
	u, err := url.Parse(former)
	if err != nil {
		return 0
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return 0
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, u.Port()))
	if err != nil {
		return 0
	}
	l.Close()
	return port
}
