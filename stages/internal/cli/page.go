package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"penstock/stages/internal/metrics"
	"penstock/stages/internal/page"
)

// endPageWait bounds what the end of a run waits for its report.
const endPageWait = 5 * time.Second

// openPage serves the run's page. It is gathered by gatherPage.
func (r *running) openPage() error {
	r.mu.Lock()
	r.page = page.NewCollector(r.dir, r.conn, r.snapshot)
	r.mu.Unlock()
	m := metrics.New(r.dir.Name(), "up", "up")
	var err error
	if r.pageServer, err = page.Serve(r.page, r.cfg.Page.Host, r.cfg.Page.Port, m.Handler()); err != nil {
		return err
	}
	r.display.say("page %s", r.pageServer.URL())
	return r.dir.WritePage(r.pageServer.URL())
}

// gatherPage keeps the page up to date until ctx ends. A page that fails is logged; the run goes on.
func (r *running) gatherPage(ctx context.Context) {
	if err := r.page.Run(ctx); err != nil {
		r.note("the page stands still: " + err.Error())
	}
}

// problem shows on the page what went wrong with an instance, once there is one.
func (r *running) problem(instance, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.page != nil {
		r.page.Problem(instance, text)
	}
}

// closePage shows the last state, writes it as the run's report, and ends the page. It is told how the run ended.
func (r *running) closePage(ended error) error {
	if r.pageServer == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), endPageWait)
	defer cancel()
	err := r.page.End(ctx, r.howEnded(ended))
	return errors.Join(err, r.page.WriteReport(r.dir.Report()), r.pageServer.Close(), r.dir.ForgetPage())
}

// howEnded is how a run ended, in a sentence.
func (r *running) howEnded(err error) page.Health {
	v := r.view.View(time.Now())
	at := fmt.Sprintf("at step %d of %d", v.Windows, v.Total)
	switch {
	case err == nil:
		return page.Health{Level: "ok", Text: fmt.Sprintf("Finished: %d steps.", v.Windows)}
	case errors.Is(err, errStopped):
		return page.Health{Level: "warn", Text: fmt.Sprintf("Stopped %s. To go on: penstock up --run %s", at, r.dir.Path())}
	}
	return page.Health{Level: "bad", Text: fmt.Sprintf("Ended %s: %v", at, err)}
}
