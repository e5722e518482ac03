// Package worker is what every stage process does alike: it finds the broker, follows the ledger, derives the plan,
// keeps what it holds marked as in progress, and says on the board what it is doing.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"penstock/broker"
	"penstock/stages/internal/account"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/observe"
	"penstock/stages/internal/runtime"
)

// ErrStop ends a stage that was asked to stop; it is success.
var ErrStop = errors.New("stop was asked for")

// Worker is one running stage process.
type Worker struct {
	*runtime.Env
	*observe.Observer
	Conn        *broker.Conn
	Ledger      *Follower
	Keeper      *Keeper
	Book        *account.Book
	Incarnation uint64 // random, of this process
	AckWait     time.Duration
	Status      *Status
	fail        context.CancelCauseFunc // ends the process's work for a reason
}

// Run connects, runs body beside the worker's own goroutines, and returns body's error once all have ended. Being
// asked to stop is not an error.
func Run(ctx context.Context, env *runtime.Env, body func(context.Context, *Worker) error) error {
	url, err := env.NATS(ctx)
	if err != nil {
		return err
	}
	ackWait, err := time.ParseDuration(env.Config.Broker.AckWait)
	if err != nil {
		return runtime.Permanent(fmt.Errorf("broker.ack_wait: %w", err))
	}
	obs, err := observe.Open(ctx, env)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := obs.Close(ctx); cerr != nil {
			env.Log.Warn("traces and metrics", "err", cerr)
		}
	}()
	conn, err := broker.Dial(ctx, url, env.Instance, broker.Options{
		Access:  runtime.Access(env.Run, env.Config, env.Stage),
		OnError: func(err error) { env.Log.Warn("broker", "err", err) },
		Inject:  obs.Trace.Inject, OnRedelivery: obs.Redelivered, Fault: env.Fault,
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.EnsureTopology(ctx); err != nil {
		return runtime.Permanent(err)
	}
	tell, own := newNotes(env.Log), *env
	own.Log = slog.New(tell) // the body's warnings; those of the connection itself stay in the log
	w := &Worker{
		Env: &own, Observer: obs, Conn: conn, Ledger: followerFor(env), Book: account.New(account.Starting),
		Incarnation: rand.Uint64(), AckWait: ackWait,
	}
	w.Keeper = newKeeper(conn.ProgressRoot, ackWait/4)
	w.Keeper.hung = w.Hung
	defer w.Keeper.close()
	w.Status = newStatus(w)
	obs.Metrics.Watch(env.Run.Name(), env.Stage, env.Instance, w.Status.Record)
	if env.Stage != "batch" { // which uses none
		obs.Metrics.WatchGPU(env.Run.Name(), env.Stage, env.Instance, env.Device, backend.State)
	}

	g, ctx := errgroup.WithContext(ctx)
	ctx, w.fail = context.WithCancelCause(ctx)
	defer w.fail(nil)
	g.Go(func() error { return quiet(ctx, w.Ledger.run(ctx, conn)) })
	g.Go(func() error { return quiet(ctx, w.Keeper.run(ctx)) })
	g.Go(func() error { return quiet(ctx, w.Status.run(ctx)) })
	g.Go(func() error { return quiet(ctx, w.watchControl(ctx)) })
	g.Go(func() error { return quiet(ctx, tell.run(ctx, w)) })
	g.Go(func() error {
		defer w.fail(nil)
		return body(ctx, w)
	})
	err = g.Wait()
	if nerr := tell.last(ctx, w); nerr != nil {
		env.Log.Warn("the last warnings are in this log alone", "err", nerr)
	}
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

// quiet drops the error of a helper goroutine that ended because ctx did.
func quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
