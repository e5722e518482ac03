package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Root is the folder that holds run directories, relative to the working directory.
const Root = "runs"

// ErrNone says that there is no run directory to fall back on.
var ErrNone = errors.New("no run directory")

// Create makes a new directory root/<time>-<name>.
func Create(root, name string, now time.Time) (*Dir, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("run directories %q: %w", root, err)
	}
	above := missing(root)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("create %q: %w", root, err)
	}
	base := now.Format("20060102-150405") + "-" + name
	for try := 1; ; try++ {
		path := filepath.Join(root, base)
		if try > 1 {
			path = fmt.Sprintf("%s.%d", path, try)
		}
		err := os.Mkdir(path, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("create run directory: %w", err)
		}
		d := &Dir{path: path, made: &made{folders: append([]string{path}, above...)}}
		return d, d.make()
	}
}

// Make returns the directory at path, creating it and its folders where they are missing. A directory that holds anything
// but what a run may have left there is somebody else's: ErrForeign.
func Make(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("run directory %q: %w", path, err)
	}
	d := &Dir{path: abs}
	if d.made, err = look(abs); err != nil {
		return nil, err
	}
	return d, d.make()
}

// Open returns the existing run directory at path. One without config.yaml is not a run: ErrNone.
func Open(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("run directory %q: %w", path, err)
	}
	d := &Dir{path: abs}
	if _, err := os.Stat(d.ConfigFile()); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %q has no config.yaml", ErrNone, path)
		}
		return nil, fmt.Errorf("open run directory: %w", err)
	}
	return d, d.recall()
}

// Newest returns the run directory under root whose config.yaml was written last, or ErrNone.
func Newest(root string) (*Dir, error) {
	configs, err := filepath.Glob(filepath.Join(root, "*", "config.yaml"))
	if err != nil {
		return nil, fmt.Errorf("look for run directories in %q: %w", root, err)
	}
	newest, at := "", time.Time{}
	for _, c := range configs {
		info, err := os.Stat(c)
		if err != nil {
			continue // removed since it was listed
		}
		if t := info.ModTime(); newest == "" || t.After(at) || t.Equal(at) && c > newest {
			newest, at = c, t
		}
	}
	if newest == "" {
		return nil, fmt.Errorf("%w under %q: start one with `penstock up`, or name one with --run DIR", ErrNone, root)
	}
	return Open(filepath.Dir(newest))
}
