// Package observe gives a process its traces and metrics, and serves both for as long as it runs.
package observe

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"penstock/stages/internal/metrics"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/telemetry"
)

// SpansPath is where a process answers with its latest spans.
const SpansPath = "/spans"

// Observer is what one process shows of itself.
type Observer struct {
	Trace   *telemetry.Tracer
	Metrics *metrics.Set

	env    *runtime.Env
	server *metrics.Server
}

// Open starts to serve, and writes the address to the run directory.
func Open(ctx context.Context, env *runtime.Env) (*Observer, error) {
	o := &Observer{env: env, Metrics: metrics.New(env.Run.Name(), env.Stage, env.Instance)}
	var err error
	o.Trace, err = telemetry.Open(ctx, telemetry.Process{Run: env.Run.Name(), Stage: env.Stage, Instance: env.Instance, Device: env.Device}, env.Config.Traces.Sample,
		func(err error) { env.Log.Warn("traces", "err", err) })
	if err != nil {
		return nil, runtime.Permanent(err)
	}
	c := env.Config.Metrics
	o.server, err = o.Metrics.Serve(c.Host, c.Port, map[string]http.Handler{SpansPath: o.Trace.Recent()})
	if err == nil {
		err = env.Run.WriteMetrics(env.Instance, o.server.URL())
	}
	if err != nil {
		return nil, errors.Join(err, o.Close(ctx))
	}
	return o, nil
}

// Redelivered counts a record that came again on a subject.
func (o *Observer) Redelivered(subject string) {
	o.Metrics.Redelivered(subject[:max(0, strings.LastIndexByte(subject, '.'))])
}

// Close delivers the last spans and ends the serving.
func (o *Observer) Close(ctx context.Context) error {
	err := o.Trace.Close(ctx)
	if o.server != nil {
		err = errors.Join(err, o.server.Close(), o.env.Run.ForgetMetrics(o.env.Instance))
	}
	return err
}
