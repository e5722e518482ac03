package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mpsDirs is what directories of services are called, in the system's for temporary files: a socket's path is short.
const mpsDirs = "penstock-mps-"

// makePipes makes a directory for a service and locks it, until the file is closed or this process ends. Those whose owners were killed
// are removed.
func makePipes() (dir string, held *os.File, err error) {
	sweepPipes()
	if dir, err = os.MkdirTemp("", mpsDirs); err != nil {
		return "", nil, err
	}
	if held, err = lockDir(dir); err != nil {
		return "", nil, errors.Join(err, os.Remove(dir))
	}
	return dir, held, nil
}

func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// sweepPipes removes directories with something in them that nobody holds: an empty one may not be locked yet. What cannot be looked
// at is somebody else's.
func sweepPipes() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), mpsDirs+"*"))
	for _, dir := range dirs {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 {
			continue
		}
		held, err := lockDir(dir)
		if err != nil {
			continue
		}
		_ = os.RemoveAll(dir)
		_ = held.Close()
	}
}
