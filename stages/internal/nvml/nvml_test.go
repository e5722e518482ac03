package nvml

import "testing"

const nowhere = "ffff:ff:1f.0"

// TestNoGPUIsRead: of a GPU that is not there nothing is said, whether there is a driver or not.
func TestNoGPUIsRead(t *testing.T) {
	if s, err := Read(nowhere); err == nil || s != (State{}) {
		t.Errorf("a GPU at %s: %+v, %v", nowhere, s, err)
	}
	if ok, err := Linked(nowhere, nowhere); ok || err == nil {
		t.Errorf("a GPU at %s is linked: %v, %v", nowhere, ok, err)
	}
}
