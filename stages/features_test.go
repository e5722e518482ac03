package stages_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"penstock/schema"
	"penstock/schema/hf"
	"penstock/schema/safetensors"
	"penstock/schema/safetensors/safetensorstest"
	"penstock/schema/store"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/features"
	"penstock/stages/internal/model"
	"penstock/stages/internal/prepare"
	"penstock/stages/stagestest"
)

// TestStoredFeaturesTrainTheSame: a run that reads stored features ends with the weights of one that runs the target, to the
// last bit, and features of other taps are refused.
func TestStoredFeaturesTrainTheSame(t *testing.T) {
	config := stagestest.Config(t, 40, func(c *schema.Config) {
		c.Deterministic = true
		c.Data.Store = t.TempDir()
	})
	online := stagestest.New(t, config)
	if err := online.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	config.Target.Features = featuresOf(t, config)
	offline := stagestest.New(t, config)
	if err := offline.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(weights(t, offline), weights(t, online)) {
		t.Error("stored features give other weights than the target itself")
	}
	other := config
	other.Target.Dir = trainedOn(t, config.Target.Dir)
	if err := stagestest.New(t, other).Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "made by another target") {
		t.Errorf("features of another target: %v", err)
	}
	config.Target.Taps = []int{0, 2, 4}
	if err := stagestest.New(t, config).Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "made with taps [1 2 4], the run has [0 2 4]") {
		t.Errorf("features of other taps: %v", err)
	}
}

// trainedOn copies a target's directory and changes one weight of it.
func trainedOn(t *testing.T, dir string) string {
	t.Helper()
	out := t.TempDir()
	if err := os.CopyFS(out, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := safetensorstest.Change(filepath.Join(out, safetensors.SingleFile)); err != nil {
		t.Fatal(err)
	}
	return out
}

// featuresOf prepares a run's data and keeps the target's features of it.
func featuresOf(t *testing.T, c schema.Config) string {
	t.Helper()
	r, err := prepare.Prepare(t.Context(), prepare.OptionsFor(c, c.Data.Store))
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(r.Store)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dev, err := backend.Open(c.Device)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	files, err := hf.OpenTarget(c.Target.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	m, err := model.LoadTarget(dev, files, c.Target.Taps[len(c.Target.Taps)-1]+1)
	if err != nil {
		t.Fatal(err)
	}
	mark, err := files.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	o := features.Options{Dir: filepath.Join(t.TempDir(), "features"), Target: mark, Taps: c.Target.Taps, Hidden: files.HiddenSize, DType: safetensors.F32}
	if _, err := features.Write(t.Context(), dev, m, s, o); err != nil {
		t.Fatal(err)
	}
	return o.Dir
}
