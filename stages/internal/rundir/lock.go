package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrLocked says that a living process holds the lock that was asked for.
var ErrLocked = errors.New("locked")

// wholeFile asks for a write lock that belongs to the open file: it ends when the file is closed, at the process's
// death at the latest, and others can ask who holds it without taking it.
var wholeFile = unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET}

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

// LockLead takes the lead among the run's trainers: whoever has it opens generations and writes the run's files.
// ErrLocked says that another one has it.
func (d *Dir) LockLead() (*Lock, error) {
	l, holder, err := take(d.join("lead"))
	if errors.Is(err, ErrLocked) {
		return nil, fmt.Errorf("the lead of run %q is %w by process %s", d.path, ErrLocked, holder)
	}
	return l, err
}

// Alive reports whether a process has the instance's name now.
func (d *Dir) Alive(instance string) (bool, error) {
	held, _, err := probe(d.join("locks", instance))
	return held, err
}

// Holder is a living process that holds one of the run's locks.
type Holder struct {
	Name string // of the instance, or "up"
	PID  int    // 0 where it could not be read
}

// Holders returns who holds the run and its instances' names now.
func (d *Dir) Holders() ([]Holder, error) {
	paths, err := filepath.Glob(d.join("locks", "*"))
	if err != nil {
		return nil, fmt.Errorf("look for lock holders: %w", err)
	}
	var hs []Holder
	for _, path := range append([]string{d.join("lock")}, paths...) {
		held, pid, err := probe(path)
		if err != nil {
			return nil, err
		}
		if held {
			name := filepath.Base(path)
			if name == "lock" {
				name = "up"
			}
			hs = append(hs, Holder{name, pid})
		}
	}
	return hs, nil
}

// probe says whether the lock at path is held, and by whom.
func probe(path string) (held bool, pid int, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, fmt.Errorf("open lock: %w", err)
	}
	defer f.Close()
	l := wholeFile
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l); err != nil {
		return false, 0, fmt.Errorf("lock %q: %w", path, err)
	}
	if l.Type == unix.F_UNLCK {
		return false, 0, nil
	}
	b, _ := os.ReadFile(path)
	pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
	return true, pid, nil
}

// take locks the file at path and leaves the process id in it; holder is the id found there otherwise.
func take(path string) (l *Lock, holder string, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, "", fmt.Errorf("open lock: %w", err)
	}
	want := wholeFile
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &want)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
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
