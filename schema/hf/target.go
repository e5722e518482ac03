package hf

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"penstock/schema/safetensors"
)

// Target is an open target directory. Its weights are mapped; Close ends that.
type Target struct {
	Geometry
	Dir           string
	Architecture  string
	DType         string // as config.json names it: bfloat16, float16, float32; empty if it does not
	TieEmbeddings bool   // the head is the embedding
	EOS           []int  // end-of-sequence ids, of generation_config.json if it names any
	Windows       []int  // sliding window of each layer, 0 for full attention; nil if no layer has one

	weights weights
}

// OpenTarget reads dir's config.json and generation_config.json and maps its weights, single or sharded. An unsupported
// architecture, a missing or torn file and a tensor that is missing or of the wrong shape are errors that name it.
func OpenTarget(dir string) (*Target, error) {
	path := filepath.Join(dir, ConfigFile)
	var c config
	if err := readJSON(path, &c); err != nil {
		return nil, fmt.Errorf("target %s: %w", dir, err)
	}
	f, err := findFamily(&c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d, err := f.read(&c)
	g := d.Geometry
	if len(c.Quantization) > 0 && string(c.Quantization) != "null" {
		err = errors.Join(err, errors.New("quantization_config: quantized weights are not supported"))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t := &Target{Geometry: g, Dir: dir, Architecture: f.architecture, DType: c.DType, TieEmbeddings: or(c.Tie, false), Windows: d.windows}
	if t.DType == "" {
		t.DType = c.TorchDType
	}
	if t.EOS, err = readEOS(dir, &c, g.VocabSize); err != nil {
		return nil, err
	}
	w, err := safetensors.OpenDir(dir)
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", dir, err)
	}
	t.weights = w
	if err := errors.Join(checkShapes(w, t.Shapes()), t.checkUnread()); err != nil {
		return nil, errors.Join(fmt.Errorf("target %s: the weights do not fit config.json: %w", dir, err), w.Close())
	}
	return t, nil
}

// readEOS returns the ids of generation_config.json, else those of config.json; they may be none.
func readEOS(dir string, c *config, vocab int) ([]int, error) {
	path := filepath.Join(dir, "generation_config.json")
	var gen struct {
		EOS tokenIDs `json:"eos_token_id"`
	}
	if err := readJSON(path, &gen); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ids := []int(gen.EOS)
	if len(ids) == 0 {
		ids, path = c.EOS, filepath.Join(dir, ConfigFile)
	}
	for _, id := range ids {
		if id < 0 || id >= vocab {
			return nil, fmt.Errorf("%s: eos_token_id: %d is not in the vocabulary 0..%d", path, id, vocab-1)
		}
	}
	return ids, nil
}

// Shapes lists the tensors that the forward needs, without the head where it is the embedding.
func (t *Target) Shapes() []Shape {
	var s []Shape
	for _, f := range families {
		if f.architecture == t.Architecture {
			s = f.tensors(t.Geometry)
		}
	}
	if !t.TieEmbeddings {
		s = append(s, Shape{Head, []int{t.VocabSize, t.HiddenSize}})
	}
	return s
}

// checkUnread refuses tensors of layers that the forward does not read: it would leave them out without a word.
func (t *Target) checkUnread() error {
	known := map[string]bool{}
	for _, s := range t.Shapes() {
		known[s.Name] = true
	}
	p := problems{}
	for _, n := range t.weights.Names() {
		if strings.HasPrefix(n, "model.layers.") && !known[n] && !strings.HasSuffix(n, ".rotary_emb.inv_freq") {
			p.add(fmt.Errorf("tensor %q is not part of a %s as config.json describes it", n, t.Architecture))
		}
	}
	return p.join()
}

// LayerWindow returns the sliding window of a layer, 0 for full attention.
func (t *Target) LayerWindow(layer int) int {
	if t.Windows == nil {
		return 0
	}
	return t.Windows[layer]
}

// Tensor returns a tensor by its name in the checkpoint.
func (t *Target) Tensor(name string) (safetensors.View, error) { return t.weights.Tensor(name) }

// LayerTensor returns a part of a layer.
func (t *Target) LayerTensor(layer int, p Part) (safetensors.View, error) {
	return t.Tensor("model." + LayerName(layer, p))
}

// Embedding returns the token embedding, [vocab, hidden].
func (t *Target) Embedding() (safetensors.View, error) { return t.Tensor("model." + Embedding) }

// FinalNorm returns the weight of the norm before the head, [hidden].
func (t *Target) FinalNorm() (safetensors.View, error) { return t.Tensor("model." + FinalNorm) }

// Head returns the output projection, [vocab, hidden]: the embedding if the two are tied.
func (t *Target) Head() (safetensors.View, error) {
	if t.TieEmbeddings {
		return t.Embedding()
	}
	return t.Tensor(Head)
}

// Close unmaps the weights; views of them must not be used any more.
func (t *Target) Close() error { return t.weights.Close() }
