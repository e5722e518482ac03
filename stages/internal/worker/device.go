package worker

import (
	"penstock/kernels"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/runtime"
)

// OpenDevice opens the device that the process was given. One that is not there is a permanent failure.
func (w *Worker) OpenDevice() (kernels.Device, error) {
	open := backend.Open
	if w.Open != nil {
		open = w.Open
	}
	dev, err := open(w.Device)
	return dev, runtime.Permanent(err)
}
