package kernels

// Later is a device whose goroutine need not wait for work to be complete: another one may, while the device already has
// the next work.
type Later interface {
	// CheckLater enqueues CheckFeatures of x. What it returns waits for that and all work before, and may be called once, by
	// any goroutine. CheckLater itself waits for the work before the call before it, so that no more than two stretches of
	// work are under way; an Index is valid until the second such call, or Sync, after it.
	CheckLater(x Tensor) func() (FeatureCheck, error)
}

// CheckLater is dev's own, or CheckFeatures and Sync at once on a device that has none.
func CheckLater(dev Device, x Tensor) func() (FeatureCheck, error) {
	if l, ok := dev.(Later); ok {
		return l.CheckLater(x)
	}
	c := dev.CheckFeatures(x)
	err := dev.Sync()
	return func() (FeatureCheck, error) { return c, err }
}
