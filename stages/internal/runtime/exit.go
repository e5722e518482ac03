package runtime

import (
	"errors"
	"os"
	"syscall"

	"penstock/kernels"
)

// What a process says by its exit code.
const (
	ExitPermanent = 78 // starting it again is pointless
	ExitDevice    = 79 // its device has failed, maybe with another process on it
)

// Permanent marks err as one that a restart cannot mend, such as a bad configuration or a missing file. That the device has failed
// meanwhile, a restart may mend.
func Permanent(err error) error {
	if err == nil || errors.Is(err, kernels.ErrFailed) {
		return err
	}
	return &permanent{err}
}

type permanent struct{ error }

func (p *permanent) Unwrap() error { return p.error }

// IsPermanent reports whether err carries the mark of Permanent.
func IsPermanent(err error) bool {
	var p *permanent
	return errors.As(err, &p)
}

// exitCode is 0 for work that is done, 128+n for a drain that signal n asked for, ExitPermanent for a failure that
// a restart cannot mend, ExitDevice for one of the device, and 1 for any other. A drained process is not done: whoever supervises it may start it again.
func exitCode(err error, sig os.Signal) int {
	switch {
	case IsPermanent(err):
		return ExitPermanent
	case sig != nil && (err == nil || isCanceled(err)):
		if s, ok := sig.(syscall.Signal); ok {
			return 128 + int(s)
		}
		return 1
	case errors.Is(err, kernels.ErrFailed):
		return ExitDevice
	case err != nil:
		return 1
	}
	return 0
}
