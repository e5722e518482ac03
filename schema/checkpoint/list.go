package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const prefix = "window-"

// ErrNone says that there is no checkpoint.
var ErrNone = errors.New("no checkpoint")

// Entry is one checkpoint's place; nothing is said about its content.
type Entry struct {
	Dir    string
	Window uint32 // the next one to train
}

func dirOf(root string, window uint32) string {
	return filepath.Join(root, fmt.Sprintf("%s%08d", prefix, window))
}

// List returns the checkpoints under root, the latest window first. A root that is not there has none.
func List(root string) ([]Entry, error) {
	found, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	var out []Entry
	for _, e := range found {
		n, ok := strings.CutPrefix(e.Name(), prefix)
		w, err := strconv.ParseUint(n, 10, 32)
		if dir := dirOf(root, uint32(w)); ok && err == nil && e.IsDir() && filepath.Base(dir) == e.Name() {
			out = append(out, Entry{dir, uint32(w)})
		}
	}
	slices.SortFunc(out, func(a, b Entry) int {
		if a.Window > b.Window {
			return -1
		}
		return 1
	})
	return out, nil
}

// Latest opens the latest checkpoint under root that is whole. bad tells why each later one was passed over. Without any
// checkpoint the error is ErrNone; if none of those that are there is whole, it says so and why.
func Latest(root string) (c *Checkpoint, bad []error, err error) {
	entries, err := List(root)
	if err != nil {
		return nil, nil, err
	}
	if len(entries) == 0 {
		return nil, nil, fmt.Errorf("%s: %w", root, ErrNone)
	}
	for _, e := range entries {
		if c, err = Open(e.Dir); err == nil {
			return c, bad, nil
		}
		bad = append(bad, err)
	}
	return nil, bad, fmt.Errorf("%s: none of %d checkpoints is whole: %w", root, len(entries), errors.Join(bad...))
}
