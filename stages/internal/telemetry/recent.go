package telemetry

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
)

// remembered is how many of the latest spans a process keeps.
const remembered = 2048

// Entry is a span as the run's page shows it. Times are Unix nanoseconds.
type Entry struct {
	Serial  uint64 `json:"serial"` // of this process, from 1
	Name    string `json:"name"`
	Process string `json:"process"`
	Gen     uint32 `json:"gen"`
	Window  uint32 `json:"window"`
	Batch   uint32 `json:"batch"`
	Bucket  string `json:"bucket"`
	Tokens  uint32 `json:"tokens"`
	Start   int64  `json:"start"`
	End     int64  `json:"end"`
	Error   string `json:"error,omitempty"`
}

// Recent is the latest spans of a process. It is safe for concurrent use.
type Recent struct {
	process string
	mu      sync.Mutex
	ring    [remembered]Entry
	n       uint64
}

func newRecent(process string) *Recent { return &Recent{process: process} }

func (r *Recent) add(e Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Process, e.Serial = r.process, r.n+1
	r.ring[r.n%remembered] = e
	r.n++
}

// After returns the spans behind a serial, oldest first: those that are still kept.
func (r *Recent) After(serial uint64) []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := serial
	if from > r.n { // of a former process of this name
		from = 0
	}
	if r.n > remembered {
		from = max(from, r.n-remembered)
	}
	out := make([]Entry, 0, r.n-from)
	for ; from < r.n; from++ {
		out = append(out, r.ring[from%remembered])
	}
	return out
}

// ServeHTTP answers with the spans behind ?after=SERIAL as JSON.
func (r *Recent) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	after, err := strconv.ParseUint(req.FormValue("after"), 10, 64)
	if err != nil && req.FormValue("after") != "" {
		http.Error(w, "after: want a serial number", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(r.After(after)) // the client is gone if this fails
}
