package page

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"penstock/stages/internal/observe"
	"penstock/stages/internal/telemetry"
)

const (
	askFor     = 500 * time.Millisecond // a process that answers later is asked again the next time
	openTraces = 4096
	doneTraces = 256 // the latest, of which the slowest are shown
	shown      = 6
)

type traceKey struct{ gen, batch uint32 }

// waterfalls puts the spans of all processes together, batch by batch.
type waterfalls struct {
	client *http.Client

	mu    sync.Mutex
	after map[string]uint64 // serial of the last span taken, by process
	open  map[traceKey][]telemetry.Entry
	order []traceKey       // of open, oldest first
	done  []Trace          // latest last
	ended map[traceKey]int // how many of its two last spans, which may come in either order
}

func newWaterfalls() *waterfalls {
	return &waterfalls{client: &http.Client{Timeout: askFor}, after: map[string]uint64{}, open: map[traceKey][]telemetry.Entry{}, ended: map[traceKey]int{}}
}

// collect asks every process for its latest spans and returns those that failed. A process that is not there now is
// left out.
func (w *waterfalls) collect(ctx context.Context, urls map[string]string) (failed []telemetry.Entry) {
	var wg sync.WaitGroup
	for process, url := range urls {
		wg.Go(func() {
			w.mu.Lock()
			after := w.after[process]
			w.mu.Unlock()
			spans, err := w.ask(ctx, fmt.Sprintf("%s%s?after=%d", url, observe.SpansPath, after))
			if err != nil {
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, s := range spans {
				w.after[process] = s.Serial
				if s.Error != "" {
					failed = append(failed, s)
				}
				w.take(s)
			}
		})
	}
	wg.Wait()
	w.settle()
	return failed
}

func (w *waterfalls) ask(ctx context.Context, url string) ([]telemetry.Entry, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var spans []telemetry.Entry
	return spans, json.NewDecoder(resp.Body).Decode(&spans)
}

func (w *waterfalls) take(s telemetry.Entry) {
	if s.Name == telemetry.Step {
		return
	}
	k := traceKey{s.Gen, s.Batch}
	if w.open[k] == nil {
		w.order = append(w.order, k)
	}
	w.open[k] = append(w.open[k], s)
	if s.Name == telemetry.Acknowledge || s.Name == telemetry.Commit {
		w.ended[k]++
	}
}

// settle moves the batches that are acknowledged to the finished ones, and forgets the oldest of both. It comes after
// all processes were asked, so that no span is missing.
func (w *waterfalls) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []traceKey
	for i, k := range w.order {
		switch {
		case w.ended[k] >= 2:
			w.done = append(w.done, whole(w.open[k]))
		case len(w.order)-i > openTraces:
		default:
			left = append(left, k)
			continue
		}
		delete(w.open, k)
		delete(w.ended, k)
	}
	w.order = left
	w.done = w.done[max(0, len(w.done)-doneTraces):]
}

func whole(spans []telemetry.Entry) Trace {
	slices.SortFunc(spans, func(a, b telemetry.Entry) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End), cmp.Compare(b.Serial, a.Serial)) // a queue before its waits
	})
	end := spans[0].End
	for _, s := range spans {
		end = max(end, s.End)
	}
	f := spans[0]
	return Trace{f.Batch, f.Window, f.Bucket, f.Tokens, float64(end-f.Start) / 1e9, spans}
}

// slowest returns the batches that took longest of the latest that are finished.
func (w *waterfalls) slowest() []Trace {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Clone(w.done)
	slices.SortStableFunc(all, func(a, b Trace) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return append([]Trace{}, all[:min(len(all), shown)]...)
}
