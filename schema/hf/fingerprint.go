package hf

import (
	"crypto/sha256"
	"fmt"
)

const sampled = 4096 // bytes at the beginning, in the middle and at the end of a tensor

// Fingerprint tells a target from others, and from itself trained on: by its geometry and samples of every tensor that the
// forward reads. It reads little even of a large model, so a change inside one tensor alone may escape it.
func (t *Target) Fingerprint() (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%s %+v %v %v", t.Architecture, t.Geometry, t.Windows, t.TieEmbeddings)
	for _, s := range t.Shapes() {
		v, err := t.Tensor(s.Name)
		if err != nil {
			return "", fmt.Errorf("fingerprint of target %s: %w", t.Dir, err)
		}
		fmt.Fprintf(h, " %s %s %v ", v.Name, v.DType, v.Shape)
		b := v.Bytes
		if len(b) > 3*sampled {
			h.Write(b[:sampled])
			h.Write(b[len(b)/2:][:sampled])
			b = b[len(b)-sampled:]
		}
		h.Write(b)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:16]), nil
}
