package mem

import (
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// exhausted is a listener in a process without a free descriptor.
type exhausted struct {
	tries int
	ended chan struct{}
}

func (e *exhausted) AcceptUnix() (*net.UnixConn, error) {
	e.tries++
	select {
	case <-e.ended:
		return nil, net.ErrClosed
	default:
		return nil, &net.OpError{Op: "accept", Net: "unix", Err: syscall.EMFILE}
	}
}

func (e *exhausted) Close() error { close(e.ended); return nil }

// TestAcceptPausesWhenItFails holds that a server that can accept nobody neither spins nor outlives its end.
func TestAcceptPausesWhenItFails(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := &exhausted{ended: make(chan struct{})}
		s := &server{l: l, ended: make(chan struct{}), dir: dir, name: "s", conns: map[net.Conn]bool{}}
		s.wg.Go(s.accept)
		time.Sleep(time.Minute)
		synctest.Wait()
		if l.tries < 60 || l.tries > 80 {
			t.Errorf("%d attempts in a minute", l.tries)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
}
