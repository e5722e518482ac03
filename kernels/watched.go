package kernels

import "errors"

// ErrFailed is in the error of a device that has failed as a whole, which may be by what another process has done on the same GPU.
// Nothing works in this process any more; in one that begins after it, all may.
var ErrFailed = errors.New("the GPU has failed")

// Watched is a device that can fail with nothing to do: by what another process has done on the same GPU.
type Watched interface {
	// OnFailure has f called once if the device is seen to have failed as a whole, with an error that is ErrFailed: nobody need wait
	// for an op to hear of it by Sync. f is called by a goroutine of the device, and must not use it. What an op alone has failed
	// at does not come by it.
	OnFailure(f func(error))
}
