package hf

import (
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// checkWritten reads an export back: whole, finite, and of the configuration that was written.
func checkWritten(dir string, cfg DrafterConfig) error {
	d, err := ReadDrafter(dir)
	if err != nil {
		return fmt.Errorf("read it back: %w", err)
	}
	defer d.Close()
	cfg.Gamma = 0 // not exported
	if got, want := fmt.Sprintf("%+v", d.DrafterConfig), fmt.Sprintf("%+v", cfg); got != want {
		return fmt.Errorf("read it back: its configuration is %s, was %s", got, want)
	}
	var checks errgroup.Group
	checks.SetLimit(runtime.GOMAXPROCS(0))
	for _, s := range cfg.Shapes() {
		checks.Go(func() error { return d.checkFinite(s.Name) })
	}
	return checks.Wait()
}

func (d *Drafter) checkFinite(name string) error {
	v, err := d.Tensor(name)
	if err != nil {
		return fmt.Errorf("read it back: %w", err)
	}
	buf := make([]float32, min(1<<16, v.Len()))
	for at := 0; at < v.Len(); at += len(buf) {
		part := buf[:min(len(buf), v.Len()-at)]
		if err := v.Part(at, len(part)).CopyFloat32(part); err != nil {
			return fmt.Errorf("read it back: %w", err)
		}
		for i, x := range part {
			if x-x != 0 {
				return fmt.Errorf("tensor %q: element %d is %g", v.Name, at+i, x)
			}
		}
	}
	return nil
}
