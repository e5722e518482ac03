package kernels

// Watched is a device that can fail with nothing to do: by what another process has done on the same GPU.
type Watched interface {
	// OnFailure has f called once if the device is seen to have failed without an op that would tell. f is called by a goroutine of
	// the device, and must not use it. No other failure comes by it: those of ops are told by Sync.
	OnFailure(f func(error))
}
