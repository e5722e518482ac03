package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// ErrForeign says that a directory holds what is not a run's.
var ErrForeign = errors.New("not a run directory, and not empty")

// made is what was at a run directory's path before it was made.
type made struct {
	folders []string        // that did not exist, the innermost first: the directory itself and those above it
	entries map[string]bool // of the directory, where it existed
}

// look remembers what is at path. A directory without config.yaml may hold what a run that never began has left, no more.
func look(path string) (*made, error) {
	m := &made{folders: missing(path), entries: map[string]bool{}}
	if len(m.folders) > 0 {
		return m, nil
	}
	list, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("look into run directory: %w", err)
	}
	foreign := ""
	for _, e := range list {
		name := e.Name()
		m.entries[name] = true
		if !slices.Contains(folders, name) && name != "lock" && name != nameFile &&
			!strings.HasPrefix(name, ".config.yaml.") && !strings.HasPrefix(name, "."+nameFile+".") {
			foreign = name
		}
	}
	if foreign != "" && !m.entries["config.yaml"] {
		return nil, fmt.Errorf("%q is %w: it holds %q and no config.yaml; name another directory", path, ErrForeign, foreign)
	}
	return m, nil
}

// missing lists path and the folders above it as far as they do not exist, the innermost first.
func missing(path string) (list []string) {
	for ; ; path = filepath.Dir(path) {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return list
		}
		list = append(list, path)
	}
}

// New reports whether the directory was made by Create or Make.
func (d *Dir) New() bool { return d.made != nil }

// Unmake removes what has come into being since Create or Make. A directory that was opened stays as it is.
func (d *Dir) Unmake() error {
	m := d.made
	if m == nil {
		return nil
	}
	if len(m.folders) == 0 {
		list, err := os.ReadDir(d.path)
		for _, e := range list {
			if !m.entries[e.Name()] {
				err = errors.Join(err, os.RemoveAll(d.join(e.Name())))
			}
		}
		return err
	}
	err := os.RemoveAll(d.path)
	for _, above := range m.folders[1:] {
		if e := os.Remove(above); errors.Is(e, syscall.ENOTEMPTY) || errors.Is(e, syscall.EEXIST) {
			break // somebody else uses it meanwhile
		} else if !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
