package bench

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"penstock/schema/hf"
	"penstock/schema/safetensors"
	"penstock/stages/internal/geometry"
)

// MakeTarget writes a target of a known size with random weights, normal with deviation 0.02 and norms of 1, in bf16. What
// belongs to its text, tokenizer and chat template, is copied from another target: no text is read with it. Weights of that
// size that are there already stay as they are.
func MakeTarget(dir string, m geometry.Model, text string) error {
	g := m.Target
	config, err := json.MarshalIndent(map[string]any{
		"architectures": []string{"Qwen3ForCausalLM"}, "model_type": "qwen3", "hidden_act": "silu", "dtype": "bfloat16",
		"hidden_size": g.HiddenSize, "intermediate_size": g.IntermediateSize, "num_hidden_layers": g.Layers,
		"num_attention_heads": g.Heads, "num_key_value_heads": g.KVHeads, "head_dim": g.HeadDim, "vocab_size": g.VocabSize,
		"max_position_embeddings": g.MaxPositions, "rms_norm_eps": g.RMSNormEps, "rope_theta": g.RopeTheta,
		"tie_word_embeddings": m.Tied, "eos_token_id": 0,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("describe %s: %w", m.Name, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make a target: %w", err)
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"} {
		b, err := os.ReadFile(filepath.Join(text, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o644)
		}
		if err != nil {
			return fmt.Errorf("copy %s of %s: %w", name, text, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, hf.ConfigFile), config, 0o644); err != nil {
		return fmt.Errorf("make a target: %w", err)
	}
	weights, shapes := filepath.Join(dir, "model.safetensors"), m.Open().Shapes()
	if f, err := os.Stat(weights); err == nil && f.Size() > 2*geometry.Parameters(shapes) { // they appear whole
		return nil
	}
	return makeWeights(weights, shapes)
}

func makeWeights(path string, shapes []hf.Shape) error {
	var specs []safetensors.Spec
	var most int64
	for _, s := range shapes {
		specs = append(specs, safetensors.Spec{Name: s.Name, DType: safetensors.BF16, Shape: s.Dims})
		most = max(most, 2*geometry.Parameters([]hf.Shape{s}))
	}
	w, err := safetensors.Create(path, specs, nil)
	if err != nil {
		return err
	}
	values := tiled(most)
	one := bytes.Repeat([]byte{0x80, 0x3f}, 1<<20)
	for _, s := range shapes {
		n, from := 2*geometry.Parameters([]hf.Shape{s}), values
		if len(s.Dims) == 1 {
			from = one
		}
		if n > int64(len(from)) {
			w.Abort()
			return fmt.Errorf("%s: a vector of %d elements is too long", s.Name, n/2)
		}
		if err := w.Raw(s.Name, from[:n]); err != nil {
			w.Abort()
			return err
		}
	}
	return w.Commit()
}

// tiled is random bf16 values, which repeat after some millions.
func tiled(size int64) []byte {
	const tile = 1<<23 - 2 // no multiple of a row, so that rows differ
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(0, 1))
	for i := int64(0); i+1 < min(size, tile); i += 2 {
		binary.LittleEndian.PutUint16(b[i:], safetensors.BF16FromFloat32(float32(0.02*r.NormFloat64())))
	}
	for n := int64(tile); n < size; n *= 2 {
		copy(b[n:], b[:n])
	}
	return b
}

// MakeData writes so many made-up documents of ids below vocab, as rows that are tokenised already, and returns their mean
// length.
func MakeData(path string, o Options, documents, vocab int) (mean int, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, fmt.Errorf("make data: %w", err)
	}
	defer f.Close()
	r := rand.New(rand.NewPCG(0, 0))
	out := json.NewEncoder(f)
	tokens := 0
	for range documents {
		one := Options{Lengths: o.Lengths, Batch: 1, Model: o.Model, Anchors: 1}
		one.Model.Target.VocabSize = vocab
		b := one.batch(r)
		mask := make([]int, len(b.mask))
		for i, m := range b.mask {
			mask[i] = int(m)
		}
		if err := out.Encode(map[string]any{"input_ids": b.ids, "loss_mask": mask}); err != nil {
			return 0, fmt.Errorf("make data: %w", err)
		}
		tokens += len(b.ids)
	}
	if err := f.Close(); err != nil {
		return 0, fmt.Errorf("make data: %w", err)
	}
	return tokens / documents, nil
}
