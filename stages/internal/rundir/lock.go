package rundir

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrLocked says that a living process holds the lock that was asked for.
var ErrLocked = errors.New("locked")

// Lock is a held lock. The kernel drops it when the process ends, however it ends.
type Lock struct{ file *os.File }

// Lock takes the run as a whole, for the process that starts its stages. ErrLocked names the holder.
func (d *Dir) Lock() (*Lock, error) {
	l, holder, err := take(d.join("lock"))
	if errors.Is(err, ErrLocked) {
		return nil, fmt.Errorf("run directory %q is %w: `penstock up` runs on it already (process %s)", d.path, ErrLocked, holder)
	}
	return l, err
}

// LockInstance takes one instance's name, so that two processes never own the same journal and pool.
func (d *Dir) LockInstance(instance string) (*Lock, error) {
	l, holder, err := take(d.join("locks", instance))
	if errors.Is(err, ErrLocked) {
		return nil, fmt.Errorf("instance %q of run %q is %w by process %s: give another --instance name or stop that one", instance, d.path, ErrLocked, holder)
	}
	return l, err
}

// take locks the file at path and leaves the process id in it; holder is the id found there otherwise.
func take(path string) (l *Lock, holder string, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, "", fmt.Errorf("open lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		b, _ := os.ReadFile(path)
		f.Close()
		if holder = strings.TrimSpace(string(b)); holder == "" {
			holder = "unknown"
		}
		return nil, holder, ErrLocked
	}
	if err != nil {
		f.Close()
		return nil, "", fmt.Errorf("lock %q: %w", path, err)
	}
	if err = f.Truncate(0); err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	if err != nil {
		f.Close()
		return nil, "", fmt.Errorf("write lock %q: %w", path, err)
	}
	return &Lock{file: f}, "", nil
}

// Release gives the lock up.
func (l *Lock) Release() error { return l.file.Close() }
