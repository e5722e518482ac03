package stagestest

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"

	"penstock/broker"
	"penstock/broker/slots"
	"penstock/stages/internal/group"
	stageruntime "penstock/stages/internal/runtime"
)

// keep runs one stage, and again whenever a fault has cut it off: its connection ends in the middle of what it does, and
// it gets nothing more out. Then, as `penstock up` does for a dead process, its work is handed back.
func (p *Pipeline) keep(ctx context.Context, stage string, n int, run func(context.Context, *stageruntime.Env) error) error {
	for {
		env := p.Env(stage, n)
		var cut atomic.Bool
		if p.Fault != nil {
			env.Fault = func(op broker.Op, subject string) broker.Outcome {
				o := p.Fault(env.Instance, op, subject)
				if o == broker.Cut {
					cut.Store(true)
				}
				return o
			}
		}
		err := p.hold(ctx, env, run)
		if !cut.Load() || ctx.Err() != nil {
			return err
		}
		if p.Unattended {
			return nil
		}
		if err := p.handBack(ctx, env); err != nil {
			return err
		}
	}
}

// hold runs a stage under its name's lock, as a process does.
func (p *Pipeline) hold(ctx context.Context, env *stageruntime.Env, run func(context.Context, *stageruntime.Env) error) error {
	name, err := p.Dir.LockInstance(env.Instance)
	if err != nil {
		return err
	}
	return errors.Join(run(ctx, env), name.Release())
}

func (p *Pipeline) handBack(ctx context.Context, env *stageruntime.Env) error {
	conn, err := p.Dial(ctx, "up")
	if err != nil {
		return err
	}
	defer conn.Close()
	if env.Stage == "draft" {
		v, err := group.Read(ctx, conn.Ledger())
		if err != nil {
			return err
		}
		_, err = group.BuryRank(ctx, conn, v, p.Dir.Journal(env.Instance), env.Instance)
		return err
	}
	j, err := slots.ReadJournal(p.Dir.Journal(env.Instance))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, u := range j.Uses {
		if err := conn.NakRoot(ctx, u.Root, 0); err != nil && !errors.Is(err, broker.ErrGone) {
			return err
		}
	}
	if env.Stage == "pack" {
		return conn.ResetHops(ctx, broker.Pack)
	}
	return nil
}

// Dial connects to the run's broker as a client of the test that has a role.
func (p *Pipeline) Dial(ctx context.Context, role string) (*broker.Conn, error) {
	url, err := p.Env("watch", 1).NATS(ctx)
	if err != nil {
		return nil, err
	}
	return broker.Dial(ctx, url, "test", broker.Options{Access: stageruntime.Access(p.Dir, p.Config, role)})
}
