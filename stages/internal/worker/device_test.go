package worker

import (
	"strings"
	"testing"

	"penstock/schema"
	"penstock/stages/internal/runtime"
)

func TestStagesRefuseAGPU(t *testing.T) {
	w := &Worker{Env: &runtime.Env{Config: schema.Default(), Device: "cuda:0"}}
	if dev, err := w.OpenDevice(); err == nil || !strings.Contains(err.Error(), "train with cpu") {
		t.Errorf("device %v, error %v", dev, err)
	}
}
