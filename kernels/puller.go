package kernels

// Puller is a device that copies what lies on another of its kind.
type Puller interface {
	// Pull: dst = src, of dst's shape and type, which lies on the device of number owner and was mapped for this one.
	Pull(dst, src Tensor, owner int)
}
