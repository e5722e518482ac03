// Package features keeps what the target's tapped layers say of a store's documents, so that drafters can be trained
// without running the target again.
//
// A folder holds features.json and files of safetensors, each of some neighbouring documents i of the store: ids.i [T] and
// hidden.i [K·T, H], plane k of it the output of layer taps[k]. The note is written last.
package features

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"penstock/schema/safetensors"
	"penstock/stages/internal/rundir"
)

const (
	noteFile    = "features.json"
	fileTokens  = 1 << 16 // of the documents of one file, about
	noteVersion = 2
)

// Note says what a folder holds.
type Note struct {
	Version   int               `json:"version"`
	Data      string            `json:"data"`   // name of the store
	Target    string            `json:"target"` // its fingerprint
	Taps      []int             `json:"taps"`
	Hidden    int               `json:"hidden_size"`
	DType     safetensors.DType `json:"dtype"`
	Documents int               `json:"documents"`
	Starts    []int             `json:"starts"` // first document of each file
}

// CheckTarget refuses features that a target of another fingerprint gave.
func (n Note) CheckTarget(fingerprint string) error {
	if n.Target != fingerprint {
		return fmt.Errorf("the stored features were made by another target, %.12s, the run has %.12s: prepare them again", n.Target, fingerprint)
	}
	return nil
}

// Check refuses features of other data, other taps or another width.
func (n Note) Check(data string, taps []int, hidden int) error {
	var errs []error
	if n.Version != noteVersion {
		errs = append(errs, fmt.Errorf("version %d, this program reads %d", n.Version, noteVersion))
	}
	if n.Data != data {
		errs = append(errs, fmt.Errorf("made of store %.12s, the run has %.12s", n.Data, data))
	}
	if !slices.Equal(n.Taps, taps) {
		errs = append(errs, fmt.Errorf("made with taps %v, the run has %v", n.Taps, taps))
	}
	if n.Hidden != hidden {
		errs = append(errs, fmt.Errorf("hidden size %d, the target has %d", n.Hidden, hidden))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the stored features do not fit: %w: prepare them again", err)
	}
	return nil
}

func fileName(dir string, n int) string {
	return filepath.Join(dir, fmt.Sprintf("features-%06d.safetensors", n))
}

func idsName(doc int) string    { return fmt.Sprintf("ids.%d", doc) }
func hiddenName(doc int) string { return fmt.Sprintf("hidden.%d", doc) }

// lengths is what of a store decides how its documents are spread over files.
type lengths interface {
	Len() int
	Length(i int) int
}

// spread returns the first document of each file.
func spread(docs lengths, tokens int) (starts []int) {
	held := tokens
	for i := range docs.Len() {
		if held >= tokens {
			starts, held = append(starts, i), 0
		}
		held += docs.Length(i)
	}
	return starts
}

func readNote(dir string) (n Note, err error) {
	path := filepath.Join(dir, noteFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return n, fmt.Errorf("%s holds no features, or their preparation was not finished: %w", dir, err)
	}
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(b, &n); err != nil {
		return n, fmt.Errorf("%s: %w", path, err)
	}
	if len(n.Starts) == 0 || n.Starts[0] != 0 || !slices.IsSorted(n.Starts) || n.Starts[len(n.Starts)-1] >= n.Documents {
		return n, fmt.Errorf("%s: its files start at documents %v of %d", path, n.Starts, n.Documents)
	}
	return n, nil
}

func (n Note) write(dir string) error {
	b, err := json.MarshalIndent(n, "", " ")
	if err != nil {
		return err
	}
	return rundir.WriteFile(filepath.Join(dir, noteFile), append(b, '\n'))
}
