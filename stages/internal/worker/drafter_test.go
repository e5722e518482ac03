package worker

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"penstock/schema"
	"penstock/schema/hf"
)

const demo = "../../../deploy/demo/"

// TestImport starts from a drafter that is not shaped like the target's layers, and refuses what does not fit it.
func TestImport(t *testing.T) {
	target, err := hf.OpenTarget(demo + "models/qwen3-random")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	shape := hf.NewDrafterConfig(target, 2, 6, 16, 385, []int{1, 3})
	shape.IntermediateSize, shape.Heads, shape.KVHeads, shape.HeadDim, shape.RopeTheta, shape.Scaling = 30, 3, 1, 16, 7e5, hf.RopeScaling{}
	zero := func(dst []float32, _ string, _ int) error {
		clear(dst)
		return nil
	}
	dir := filepath.Join(t.TempDir(), "drafter")
	if err := hf.WriteDrafter(dir, shape, zero, hf.Export{}); err != nil {
		t.Fatal(err)
	}
	config := func(change func(c *schema.Config)) schema.Config {
		c := schema.Default()
		c.Target.Taps, c.Draft.Layers, c.Draft.BlockSize, c.Draft.Init = []int{1, 3}, 2, 6, "path:"+dir
		change(&c)
		return c
	}
	if got, err := DrafterConfig(config(func(*schema.Config) {}), target); err != nil || !reflect.DeepEqual(got, shape) {
		t.Errorf("%+v, %v, want %+v", got, err, shape)
	}
	for want, change := range map[string]func(c *schema.Config){
		"draft.block_size is 8, the drafter has 6":      func(c *schema.Config) { c.Draft.BlockSize = 8 },
		"draft.layers is 3, the drafter has 2":          func(c *schema.Config) { c.Draft.Layers = 3 },
		"draft.mask_token_id is 5, the drafter has 385": func(c *schema.Config) { c.Draft.MaskTokenID = 5 },
		"draft.window is 8, the drafter has 16":         func(c *schema.Config) { c.Draft.Window = 8 },
		"target.taps is [1 2], the drafter reads [1 3]": func(c *schema.Config) { c.Target.Taps = []int{1, 2} },
		"has none of [config.json":                      func(c *schema.Config) { c.Draft.Init = "path:" + t.TempDir() },
	} {
		if _, err := DrafterConfig(config(change), target); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	other, err := hf.OpenTarget(demo + "models/qwen2-random")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := DrafterConfig(config(func(*schema.Config) {}), other); err == nil || !strings.Contains(err.Error(), "hidden_size is 44") {
		t.Errorf("another target: %v", err)
	}
}
