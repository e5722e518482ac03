// Package durable replaces files and directories so that a crash leaves the old content or the new, never a mixture.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
)

// aside is the prefix of names under which content is written before it takes its place.
const aside = ".aside-"

// SyncDir makes the names in dir survive a crash.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

// File is a file that is written aside; Commit puts it in place, Abort removes it.
type File struct {
	*os.File
	path string
	done bool
}

// Create starts the replacement of path. The caller ends it with Commit or Abort.
func Create(path string) (*File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), aside+filepath.Base(path)+"-*")
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	if err := f.Chmod(0o644); err != nil {
		f.Close()
		os.Remove(f.Name())
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	return &File{File: f, path: path}, nil
}

// Commit syncs the content, renames it to its path and syncs the directory.
func (f *File) Commit() error {
	if f.done {
		return fmt.Errorf("write %s: already ended", f.path)
	}
	f.done = true
	err := f.Sync()
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return SyncDir(filepath.Dir(f.path))
}

// Abort removes what was written. After Commit it does nothing, so it may be deferred.
func (f *File) Abort() {
	if f.done {
		return
	}
	f.done = true
	f.Close()
	os.Remove(f.Name())
}

// WriteFile replaces path by data.
func WriteFile(path string, data []byte) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return f.Commit()
}

// WriteDir calls fill with a new directory beside path, syncs every file in it and then puts it in the place of path,
// which may exist. An error of fill leaves path as it was.
func WriteDir(path string, fill func(dir string) error) error {
	path = filepath.Clean(path)
	parent := filepath.Dir(path)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	tmp, err := os.MkdirTemp(parent, aside+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer removeTree(tmp) // holds the old content after an exchange
	if err := os.Chmod(tmp, 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := fill(tmp); err != nil {
		return err
	}
	if err := syncTree(tmp); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(tmp, path)
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	} else if err := exchange(tmp, path); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return SyncDir(parent)
}

// RemoveDir removes a directory; after a crash it is there whole or not at all under its name.
func RemoveDir(path string) error {
	path = filepath.Clean(path)
	tmp, err := os.MkdirTemp(filepath.Dir(path), aside+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	old := filepath.Join(tmp, "old")
	if err = os.Rename(path, old); err == nil {
		err = removeTree(old)
	}
	return errors.Join(err, os.RemoveAll(tmp))
}

// removeTree is os.RemoveAll for a directory of large files, whose pages and blocks are given back side by side.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var removals errgroup.Group
	for _, e := range entries {
		removals.Go(func() error { return os.RemoveAll(filepath.Join(dir, e.Name())) })
	}
	return errors.Join(removals.Wait(), os.RemoveAll(dir))
}

// Sweep removes what crashed writers left aside in dir. No writer may be at work in it.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), aside) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

func syncTree(root string) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
