package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"
)

const format = 1 // of the directory

// manifest says what each other file of a checkpoint must be.
type manifest struct {
	Format int             `json:"format"`
	Files  map[string]file `json:"files"`
}

type file struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// writeManifest measures the files of dir, but takes the hashes that are in sums.
func writeManifest(dir string, sums map[string]hash.Hash) error {
	m := manifest{format, map[string]file{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if sum := sums[e.Name()]; sum != nil {
			info, err := e.Info()
			if err != nil {
				return err
			}
			m.Files[e.Name()] = file{info.Size(), hex.EncodeToString(sum.Sum(nil))}
		} else if m.Files[e.Name()], err = measure(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestFile), append(text, '\n'), 0o644)
}

func measure(path string) (file, error) {
	f, err := os.Open(path)
	if err != nil {
		return file{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return file{}, err
	}
	h := sha256.New()
	steps := make([]byte, min(1<<20, info.Size()+1))
	n, err := io.CopyBuffer(h, struct{ io.Reader }{f}, steps) // by itself f would be read in small ones
	return file{n, hex.EncodeToString(h.Sum(nil))}, err
}

// verify requires that dir holds the manifest's files, all of them, no others, unchanged.
func verify(dir string) error {
	path := filepath.Join(dir, manifestFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("%s: bad or torn: %w", path, err)
	}
	if m.Format != format {
		return fmt.Errorf("%s: format %d, this program reads %d", path, m.Format, format)
	}
	for _, name := range []string{stateFile, configFile, firstMoment, secondMoment} {
		if _, ok := m.Files[name]; !ok {
			return fmt.Errorf("%s: does not list %s", path, name)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, ok := m.Files[e.Name()]; !ok && e.Name() != manifestFile {
			return fmt.Errorf("%s: is not in the manifest", filepath.Join(dir, e.Name()))
		}
	}
	var checks errgroup.Group
	checks.SetLimit(runtime.GOMAXPROCS(0))
	for name, want := range m.Files {
		checks.Go(func() error { return want.check(dir, name) })
	}
	return checks.Wait()
}

func (want file) check(dir, name string) error {
	path := filepath.Join(dir, name)
	if filepath.Base(path) != name {
		return fmt.Errorf("%s: %q is not a file name", manifestFile, name)
	}
	got, err := measure(path)
	switch {
	case err != nil:
		return err
	case got.Size != want.Size:
		return fmt.Errorf("%s: has %d bytes, was written with %d: torn", path, got.Size, want.Size)
	case got.SHA256 != want.SHA256:
		return fmt.Errorf("%s: its content changed since it was written (SHA-256 differs)", path)
	}
	return nil
}
