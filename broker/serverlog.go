package broker

import (
	"fmt"
	"sync"
)

// lines is the embedded server's logger: it keeps the last error and passes warnings and errors on.
type lines struct {
	to   func(string)
	mu   sync.Mutex
	last string
}

func (l *lines) Noticef(string, ...any) {}
func (l *lines) Debugf(string, ...any)  {}
func (l *lines) Tracef(string, ...any)  {}

func (l *lines) Warnf(format string, v ...any) { l.pass(fmt.Sprintf(format, v...)) }

func (l *lines) Errorf(format string, v ...any) {
	line := fmt.Sprintf(format, v...)
	l.mu.Lock()
	l.last = line
	l.mu.Unlock()
	l.pass(line)
}

// Fatalf does not exit: StartServer finds the server not ready and returns the reason.
func (l *lines) Fatalf(format string, v ...any) { l.Errorf(format, v...) }

func (l *lines) pass(line string) {
	if l.to != nil {
		l.to(line)
	}
}

func (l *lines) lastError() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == "" {
		return "the server gives no reason"
	}
	return l.last
}
