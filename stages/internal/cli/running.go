package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"penstock/broker"
	"penstock/schema"
	"penstock/stages/internal/doctor"
	"penstock/stages/internal/monitor"
	"penstock/stages/internal/page"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/supervise"
	"penstock/stages/internal/worker"
)

// How hard `up` tries. A restart is cheap and work is redone exactly once, so it is tried soon and often; an instance
// that dies this often while no window commits will not recover. Kills may have nothing to do with the place they come at.
const (
	restarts    = 6
	kills       = 20
	backoff     = 50 * time.Millisecond
	maxBackoff  = 5 * time.Second
	grace       = 30 * time.Second // a trainer writes a checkpoint in this time
	brokerWait  = 30 * time.Second
	openTimeout = time.Second
	weighEvery  = 2 * time.Second // memory is summed up, and the directory looked for
)

// errStopped says that somebody asked the run to stop, and that it did so in order.
var errStopped = errors.New("stopped")

// running is a run whose processes this process owns.
type running struct {
	dir     *rundir.Dir
	cfg     schema.Config
	display *display
	log     *slog.Logger
	logFile *os.File
	sup     *supervise.Supervisor
	view    *monitor.Tracker
	watch   func(schema.Record) // is given every record of the board
	notes   chan string         // lines for the display
	peak    int64               // most memory of all processes together, in bytes
	gpus    []*gpuMemory
	mps     *mps // nil: there is none

	conn *broker.Conn // nil before the broker is reached

	vitals *vitals
	began  time.Time

	page       *page.Collector
	pageServer *page.Server // nil before it serves

	mu     sync.Mutex
	gen    uint32
	done   uint32 // windows committed
	most   uint32 // of them ever: a new generation begins behind it
	wanted string // of the control record
}

func newRunning(dir *rundir.Dir, cfg schema.Config, needs []doctor.Need, d *display) (*running, error) {
	f, err := os.OpenFile(dir.Log("up"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	r := &running{
		dir: dir, cfg: cfg, gpus: newGPUMemory(needs), display: d, log: slog.New(slog.NewTextHandler(f, nil)), logFile: f,
		view: monitor.NewTracker(), notes: make(chan string, 64), began: time.Now(),
	}
	wait, err := time.ParseDuration(cfg.Broker.AckWait)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("broker.ack_wait: %w", err), f.Close())
	}
	r.vitals = newVitals(wait, r.replace)
	r.sup = supervise.New(supervise.Options{
		Permanent: runtime.ExitPermanent, Device: runtime.ExitDevice, Restarts: restarts, Kills: kills, Backoff: backoff, MaxBackoff: maxBackoff, Grace: grace,
		OnExit: r.onExit, Again: r.again, PIDs: dir.WritePIDs,
	})
	return r, nil
}

// close ends every process, the broker last, and whatever else the run holds. It is told how the run ended.
func (r *running) close(ended error) error {
	err := errors.Join(r.closePage(ended), r.sup.Close())
	r.mps.stop()
	if r.conn != nil {
		r.conn.Close()
	}
	return errors.Join(err, r.dir.ForgetURL(), r.logFile.Close())
}

// run starts ps and returns when the drafter is trained, nil; when the run was stopped, errStopped; when it cannot go
// on, why; or when ctx ends.
func (r *running) run(ctx context.Context, ps []supervise.Process) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	if r.cfg.Broker.URL == "" {
		if err := r.sup.Start(ps[0]); err != nil {
			return err
		}
		ps = ps[1:]
	}
	if err := r.connect(ctx); err != nil {
		return err
	}
	if err := r.openPage(); err != nil {
		return err
	}
	var told string
	if r.mps, told = startMPS(ctx, r.cfg, r.dir); told != "" {
		r.display.say("%s", told)
	}
	wg.Go(func() { r.gatherPage(ctx) })
	wg.Go(func() { r.listen(ctx) })
	watchErr := make(chan error, 1)
	wg.Go(func() { watchErr <- r.conn.Board().Watch(ctx, ">", r.onHint) })
	var stages, ranks []string
	for _, p := range ps {
		if r.mps != nil {
			p.Env = append(p.Env, r.mps.client(p.Name)...)
		}
		if err := r.sup.Start(p); err != nil {
			return err
		}
		stages = append(stages, p.Name)
		if strings.HasPrefix(p.Name, "draft") {
			ranks = append(ranks, p.Name)
		}
	}
	trained := make(chan struct{})
	wg.Go(func() {
		for _, name := range ranks {
			select {
			case <-r.sup.Done(name):
			case <-ctx.Done():
				return
			}
		}
		close(trained)
	})

	show := time.NewTicker(r.display.every())
	defer show.Stop()
	weigh := time.NewTicker(weighEvery)
	defer weigh.Stop()
	for {
		select {
		case line := <-r.notes:
			r.display.say("%s", line)
		case <-show.C:
			for _, g := range r.gpus {
				g.weigh()
			}
			r.display.show(r.snapshot(ctx))
		case <-weigh.C:
			if _, err := os.Stat(r.dir.ConfigFile()); err != nil {
				return fmt.Errorf("the run directory has gone from under the run: %w", err)
			}
			r.peak = max(r.peak, monitor.PSS(append(r.sup.PIDs(), os.Getpid())...))
		case <-trained:
			r.lastWord(ctx)
			r.display.show(r.snapshot(ctx))
			if err := r.sup.Stop(stages...); err != nil {
				r.log.Warn("stop", "err", err)
			}
			r.sayNotes()
			if r.stopped() {
				return errStopped
			}
			return nil
		case err := <-r.sup.Failed():
			return r.explain(err)
		case err := <-watchErr:
			if ctx.Err() == nil {
				return fmt.Errorf("watch the board: %w", err)
			}
		case <-ctx.Done():
			r.display.say("draining: every stage ends after what it is doing")
			if err := r.sup.Stop(stages...); err != nil {
				r.log.Warn("stop", "err", err)
			}
			r.sayNotes()
			return fmt.Errorf("interrupted: go on with `penstock up --run %s`", r.dir.Path())
		}
	}
}

// lastWord takes what the drafter said at its end into the view: the watch may not have brought it yet.
func (r *running) lastWord(ctx context.Context) {
	h, ok, err := r.conn.Board().Get(ctx, worker.KeyProgress)
	if err != nil {
		r.log.Warn("the run's last progress", "err", err)
	} else if ok {
		r.view.Apply(h.Record)
	}
}

// connect waits for the broker, and takes off the board what an earlier session of this run left there.
func (r *running) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, brokerWait)
	defer cancel()
	url := r.cfg.Broker.URL
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for url == "" {
		select {
		case err := <-r.sup.Failed():
			return r.explain(err)
		case <-ctx.Done():
			return fmt.Errorf("the broker is not ready: %w (see %s)", context.Cause(ctx), r.dir.Log("broker"))
		case <-tick.C:
		}
		var err error
		if url, err = r.dir.URL(); err != nil {
			return err
		}
	}
	conn, err := r.dial(ctx, url)
	if err != nil {
		return err
	}
	r.conn = conn
	if err := conn.EnsureTopology(ctx); err != nil {
		return err
	}
	if err := r.alone(ctx); err != nil {
		return err
	}
	old, err := conn.Board().List(ctx, "stage.*")
	if err != nil {
		return err
	}
	said, ok, err := conn.Board().Get(ctx, worker.KeyProgress)
	if err != nil {
		return err
	}
	if p, is := said.Record.(schema.Progress); ok && is && p.Done {
		old = append(old, said) // whether the run is complete yet, with the files that it has, the drafter says anew
	}
	for _, h := range old {
		if err := conn.Board().Remove(ctx, h.Key); err != nil {
			return err
		}
	}
	return conn.Board().Put(ctx, "control", schema.Control{Run: r.dir.Name(), Want: wantRun})
}

// onHint takes a board record into the view. A committed window forgives the deaths before it, all of them if it is one more.
func (r *running) onHint(h broker.Hint) error {
	r.view.Apply(h.Record)
	r.watch(h.Record)
	switch rec := h.Record.(type) {
	case schema.Note:
		if h.Stored.After(r.began) { // an earlier session's stays on the board
			r.note(rec.Instance + ": " + rec.Text)
			r.problem(rec.Instance, rec.Text)
		}
	case schema.StageState:
		r.vitals.take(rec)
	case schema.Progress:
		r.mu.Lock()
		more, further := rec.Gen != r.gen || rec.Windows > r.done, rec.Windows > r.most
		r.gen, r.done, r.most = rec.Gen, rec.Windows, max(r.most, rec.Windows)
		r.mu.Unlock()
		if more {
			r.sup.Progress(further)
		}
	case schema.PlanInfo:
		if rec.Rejected > 0 && rec.Run == r.dir.Name() {
			r.note(fmt.Sprintf("%d of %d rows are rejected: see %s", rec.Rejected, rec.Rows, strings.TrimSuffix(rec.Store, ".store")+".rejects.jsonl"))
		}
	case schema.Control:
		if rec.Run != r.dir.Name() {
			return shared(rec.Run, r.cfg.Broker.URL)
		}
		r.mu.Lock()
		r.wanted = rec.Want
		r.mu.Unlock()
		if rec.Want == wantStop {
			r.note("asked to stop: draining")
		}
	}
	return nil
}

// onExit says that a process has died, unless it is done or was asked to end, and hands back what it held. Stages are
// started after the broker is reached, so the connection is there.
func (r *running) onExit(e supervise.Exit) {
	r.vitals.gone(e.Name)
	r.log.Info("exit", "instance", e.Name, "pid", e.PID, "status", e.Status(), "uptime", e.Uptime.Round(time.Millisecond).String())
	if e.Stopped && (e.Code == 1 || e.Code == runtime.ExitDevice) { // a drafter that cannot save, for one
		r.note((&supervise.Failure{Exit: e, Reason: "it was asked to end"}).Error())
	}
	if e.Code == 0 || e.Stopped {
		return
	}
	r.note(fmt.Sprintf("%s: %s after %s", e.Name, e.Status(), e.Uptime.Round(time.Millisecond)))
	r.problem(e.Name, e.Status()+" after "+e.Uptime.Round(time.Millisecond).String())
	if e.Name != "broker" {
		r.handBack(context.Background(), e.Name)
	}
	r.redeliver(e.Name)
}

// again waits until a stage that has died can use its GPU again.
func (r *running) again(ctx context.Context, name string) {
	if name != "broker" { // which may die before there is a service, and uses none
		r.mps.recovered(ctx)
	}
}

// note hands a line to the display; with a full queue it stays in the log alone.
func (r *running) note(line string) {
	r.log.Info(line)
	select {
	case r.notes <- line:
	default:
	}
}

// sayNotes shows the lines that are there.
func (r *running) sayNotes() {
	for {
		select {
		case line := <-r.notes:
			r.display.say("%s", line)
		default:
			return
		}
	}
}

func (r *running) stopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wanted == wantStop
}

// snapshot is the view with the open roots that the broker counts.
func (r *running) snapshot(ctx context.Context) monitor.View {
	v := r.view.View(time.Now())
	fillOpen(ctx, r.conn, &v)
	return v
}

// explain shows what a failed process said before its last line, which the error carries, and returns the error.
func (r *running) explain(err error) error {
	var f *supervise.Failure
	if errors.As(err, &f) && len(f.Tail) > 1 {
		r.log.Error("failed", "instance", f.Name, "tail", f.Tail)
	}
	return err
}
