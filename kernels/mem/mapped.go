package mem

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Beside a pool's socket lies a file that every importer holds a shared lock of for as long as it maps the pool's memory,
// whoever owned it. A lock ends with its process, so nothing has to be said, and nobody waits for the dead.

const (
	letGo     = 20 * time.Second // importers end their reads in this time; the longest is a drafter's work on one batch
	lookAgain = time.Millisecond
)

// errMapped: an importer has not let go in time.
var errMapped = errors.New("its memory is still mapped by another process")

func openMapped(runDir, pool string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(runDir, pool+".maps"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock of mapped memory: %w", err)
	}
	return f, nil
}

// holdMapped says that this process maps memory of a pool, until the file is closed.
func holdMapped(runDir, pool string) (*os.File, error) {
	if pool != filepath.Base(pool) {
		return nil, fmt.Errorf("%w: pool name %q", ErrForged, pool)
	}
	f, err := openMapped(runDir, pool)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_SH) // an owner locks for a moment only
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// awaitUnmapped waits until no importer maps memory of a pool, or returns errMapped after a while. Nobody can map memory
// of an owner any more that no longer serves.
func awaitUnmapped(runDir, pool string) error {
	f, err := openMapped(runDir, pool)
	if err != nil {
		return err
	}
	defer f.Close()
	for late := time.Now().Add(letGo); ; time.Sleep(lookAgain) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		case time.Now().After(late):
			return errMapped
		}
	}
}
