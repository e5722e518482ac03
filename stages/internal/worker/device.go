package worker

import (
	goruntime "runtime"

	"penstock/kernels"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/runtime"
)

// OpenDevice opens the device that the process was given. One that is not there is a permanent failure. On a CPU the
// processes that compute share its cores: threads that wait for each other in turn would cost more than they bring. If the
// device fails while nothing is asked of it, the process ends: another may work in its place.
func (w *Worker) OpenDevice() (kernels.Device, error) {
	open := func(name string) (kernels.Device, error) {
		return backend.OpenThreads(name, max(1, goruntime.NumCPU()/(w.Config.Target.Instances+w.Config.Draft.Ranks)))
	}
	if w.Open != nil {
		open = w.Open
	}
	dev, err := open(w.Device)
	if d, ok := dev.(kernels.Watched); ok {
		d.OnFailure(w.fail)
	}
	return dev, runtime.Permanent(err)
}
