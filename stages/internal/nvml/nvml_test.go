package nvml

import "testing"

// TestRead holds a reading against what can be true; without a driver there is an error, never a reading.
func TestRead(t *testing.T) {
	s, err := Read(0)
	if err == nil && (s.Total == 0 || s.Used > s.Total || s.Busy < 0 || s.Busy > 1) {
		t.Errorf("GPU 0 is %+v", s)
	}
	if err != nil && s != (State{}) {
		t.Errorf("%v, and %+v", err, s)
	}
	if _, err := Read(9999); err == nil {
		t.Error("GPU 9999 is there")
	}
}

func TestLinkedNeedsBoth(t *testing.T) {
	if ok, err := Linked(0, 9999); ok || err == nil {
		t.Errorf("GPU 9999 is linked: %v, %v", ok, err)
	}
}
