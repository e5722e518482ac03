// Package checkpoint keeps the state of training on disk.
//
// A checkpoint is a directory window-N under a root, N being the next window to train. It is a drafter directory as
// hf.ReadDrafter reads it, with float32 weights (config.json, model.safetensors), and beside these the AdamW moments
// (adam_m.safetensors, adam_v.safetensors), the run's resolved config.yaml, state.json, and manifest.json with the size
// and SHA-256 of every other file. Random numbers are drawn by key, not by sequence, so no generator's state is kept.
package checkpoint
