package broker

import (
	"errors"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// ErrDenied: the server does not let this client do that.
var ErrDenied = errors.New("permission denied")

// denials turns the server's refusals, which come without saying to which request, into the end of the requests that they
// are about: the server answers those with silence.
type denials struct {
	mu      sync.Mutex
	waiting map[*attempt]bool
}

// attempt is one request under way.
type attempt struct {
	what   string // names the subject, unless the request is to the JetStream API
	denied string // subject
	end    func()
}

func (d *denials) begin(what string, end func()) *attempt {
	a := &attempt{what: what, end: end}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting == nil {
		d.waiting = map[*attempt]bool{}
	}
	d.waiting[a] = true
	return a
}

// done ends an attempt and returns the subject that it was refused on, if it was.
func (d *denials) done(a *attempt) (subject string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waiting, a)
	return a.denied
}

// notice is told every asynchronous error of the connection.
func (d *denials) notice(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	_, rest, _ := strings.Cut(err.Error(), `"`)
	subject, _, ok := strings.Cut(rest, `"`)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for a := range d.waiting {
		if a.concerns(subject) {
			a.denied = subject
			a.end()
		}
	}
}

// concerns errs, with two requests to the API at once, on the side of both.
func (a *attempt) concerns(subject string) bool {
	if strings.HasPrefix(subject, "$JS.API.") && !strings.HasPrefix(a.what, "$JS.API.") {
		return !strings.Contains(a.what, "$JS.ACK.") && !strings.HasPrefix(a.what, "publish ") && !strings.HasPrefix(a.what, "append ") && !strings.HasPrefix(a.what, "put ")
	}
	return strings.Contains(a.what, subject)
}
