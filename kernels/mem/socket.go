package mem

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	greeting     = 16 // bytes: magic, incarnation
	maxPassed    = 4  // descriptors
	passDeadline = 2 * time.Second

	minPause, maxPause = 5 * time.Millisecond, time.Second // before the next attempt to accept, after one that failed
)

// inDir returns a path to dir/name that fits a socket address, which holds 108 bytes, however long dir is.
func inDir(dir, name string) (path string, close func() error, err error) {
	if name == "" || !filepath.IsLocal(name) || strings.ContainsRune(name, '/') || len(name) > 80 {
		return "", nil, fmt.Errorf("%w: socket name %q", ErrForged, name)
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, fmt.Errorf("run directory: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name), d.Close, nil
}

// server hands a slab's descriptors to every importer of the same user, and keeps the connection: its end tells an importer
// that the owner has ended.
type server struct {
	l     listener
	ended chan struct{} // closed with l
	dir   string
	name  string
	hello [greeting]byte
	fds   []int
	wg    sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil once closed
}

// listener is what a server needs of a *net.UnixListener.
type listener interface {
	AcceptUnix() (*net.UnixConn, error)
	Close() error
}

// serve listens on dir/name, with mode 0600 from the start. A socket that a dead owner left is replaced.
func serve(dir, name string, incarnation uint64, fds ...int) (*server, error) {
	path, done, err := inDir(dir, name)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := unserved(dir, name); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("old socket: %w", err)
	}
	var moded error
	cfg := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// The file that bind makes takes its mode from the socket.
		return errors.Join(c.Control(func(fd uintptr) { moded = unix.Fchmod(int(fd), 0o600) }), moded)
	}}
	l, err := cfg.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", filepath.Join(dir, name), err)
	}
	socket := l.(*net.UnixListener)
	socket.SetUnlinkOnClose(false) // its path is through a descriptor that is closed by then
	s := &server{l: socket, ended: make(chan struct{}), dir: dir, name: name, fds: fds, conns: map[net.Conn]bool{}}
	binary.LittleEndian.PutUint64(s.hello[:], controlMagic)
	binary.LittleEndian.PutUint64(s.hello[8:], incarnation)
	s.wg.Go(s.accept)
	return s, nil
}

// unserved refuses a socket that a living process serves.
func unserved(dir, name string) error {
	path, done, err := inDir(dir, name)
	if err != nil {
		return err
	}
	defer done()
	if c, err := net.DialTimeout("unix", path, passDeadline); err == nil {
		c.Close()
		return fmt.Errorf("socket %s is served by another process", filepath.Join(dir, name))
	}
	return nil
}

// accept attends to importers until the server is closed. What keeps one from being accepted, such as a process without a
// free descriptor, may pass: the next attempt comes after a pause that grows.
func (s *server) accept() {
	for pause := minPause; ; {
		c, err := s.l.AcceptUnix()
		switch {
		case err == nil:
			pause = minPause
			s.wg.Go(func() { s.attend(c) })
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, maxPause)
		case <-s.ended:
			return
		}
	}
}

// attend passes the descriptors and waits until the importer, or this server, ends the connection.
func (s *server) attend(c *net.UnixConn) {
	defer c.Close()
	if !s.keep(c) { // the importer sees the connection end
		return
	}
	if s.pass(c) == nil {
		_, _ = io.Copy(io.Discard, c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

func (s *server) keep(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns != nil {
		s.conns[c] = true
	}
	return s.conns != nil
}

func (s *server) pass(c *net.UnixConn) error {
	if err := checkPeer(c); err != nil {
		return err
	}
	if err := c.SetWriteDeadline(time.Now().Add(passDeadline)); err != nil {
		return err
	}
	_, _, err := c.WriteMsgUnix(s.hello[:], unix.UnixRights(s.fds...), nil)
	return err
}

func (s *server) close() error {
	close(s.ended)
	err := s.l.Close()
	s.mu.Lock()
	for c := range s.conns {
		c.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.wg.Wait()
	if rm := os.Remove(filepath.Join(s.dir, s.name)); rm != nil && !errors.Is(rm, os.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	return err
}

// receive asks the owner behind dir/name for its descriptors. The caller closes them, and the connection, which ends with the
// owner.
func receive(ctx context.Context, dir, name string, incarnation uint64, n int) (_ net.Conn, _ []int, err error) {
	path, done, err := inDir(dir, name)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	conn, err := (&net.Dialer{Timeout: passDeadline}).DialContext(ctx, "unix", path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, nil, fmt.Errorf("%w: nobody serves socket %s", ErrStale, filepath.Join(dir, name))
	} else if err != nil {
		return nil, nil, fmt.Errorf("connect to %s: %w", filepath.Join(dir, name), err)
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c := conn.(*net.UnixConn)
	if err := checkPeer(c); err != nil {
		return nil, nil, err
	}
	if err := c.SetReadDeadline(time.Now().Add(passDeadline)); err != nil {
		return nil, nil, err
	}
	hello, rights := make([]byte, greeting+1), make([]byte, unix.CmsgSpace(4*maxPassed))
	k, kr, flags, _, err := c.ReadMsgUnix(hello, rights)
	fds, perr := parseRights(rights[:max(kr, 0)])
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		err = fmt.Errorf("%w: the owner behind socket %s has ended", ErrStale, filepath.Join(dir, name))
	case err != nil:
		err = fmt.Errorf("receive from %s: %w", filepath.Join(dir, name), err)
	case perr != nil, k != greeting, flags&unix.MSG_CTRUNC != 0, len(fds) != n, binary.LittleEndian.Uint64(hello) != controlMagic:
		err = fmt.Errorf("%w: socket %s answers with %d bytes and %d descriptors", ErrForged, filepath.Join(dir, name), k, len(fds))
	case binary.LittleEndian.Uint64(hello[8:]) != incarnation:
		err = fmt.Errorf("%w: socket %s belongs to another incarnation", ErrStale, filepath.Join(dir, name))
	}
	if err == nil && stop() {
		err = c.SetReadDeadline(time.Time{})
	} else if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		closeAll(fds)
		return nil, nil, err
	}
	return conn, fds, nil
}

func parseRights(b []byte) ([]int, error) {
	msgs, err := unix.ParseSocketControlMessage(b)
	var fds []int
	for i := range msgs {
		got, perr := unix.ParseUnixRights(&msgs[i])
		fds, err = append(fds, got...), errors.Join(err, perr)
	}
	return fds, err
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// checkPeer refuses a process of another user.
func checkPeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) { cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if cerr != nil {
		return fmt.Errorf("ask for the peer's user: %w", cerr)
	}
	return sameUser(cred.Uid, os.Geteuid())
}

func sameUser(peer uint32, own int) error {
	if int64(peer) != int64(own) {
		return fmt.Errorf("%w: the peer is user %d, not %d", ErrForged, peer, own)
	}
	return nil
}
