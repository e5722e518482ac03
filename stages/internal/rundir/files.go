package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// WriteConfig writes the resolved configuration of a run that has none yet; fs.ErrExist if it has.
func (d *Dir) WriteConfig(yaml []byte) error { return writeOnce(d.ConfigFile(), yaml) }

// Config returns the resolved configuration, nil before it is written.
func (d *Dir) Config() ([]byte, error) { return readIfThere(d.ConfigFile()) }

// WriteURL says where the broker listens.
func (d *Dir) WriteURL(url string) error { return WriteFile(d.URLFile(), []byte(url+"\n")) }

// URL returns where the broker listens, "" before it has said so.
func (d *Dir) URL() (string, error) {
	b, err := readIfThere(d.URLFile())
	return strings.TrimSpace(string(b)), err
}

// ForgetURL removes the address that a former broker left.
func (d *Dir) ForgetURL() error {
	return forget(d.URLFile())
}

func forget(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget an address: %w", err)
	}
	return nil
}

// WritePage says where the run's page is.
func (d *Dir) WritePage(url string) error { return WriteFile(d.PageFile(), []byte(url+"\n")) }

// ForgetPage removes the page's address.
func (d *Dir) ForgetPage() error { return forget(d.PageFile()) }

// WriteMetrics says where an instance answers Prometheus.
func (d *Dir) WriteMetrics(instance, url string) error {
	return WriteFile(d.MetricsFile(instance), []byte(url+"\n"))
}

// ForgetMetrics removes an instance's address.
func (d *Dir) ForgetMetrics(instance string) error { return forget(d.MetricsFile(instance)) }

// MetricsURLs returns where the instances answer Prometheus, by instance. One that was killed may still be listed.
func (d *Dir) MetricsURLs() (map[string]string, error) {
	files, err := filepath.Glob(d.MetricsFile("[^.]*"))
	if err != nil {
		return nil, fmt.Errorf("list metrics addresses: %w", err)
	}
	urls := map[string]string{}
	for _, f := range files {
		b, err := readIfThere(f)
		if err != nil {
			return nil, err
		}
		if u := strings.TrimSpace(string(b)); u != "" {
			urls[filepath.Base(f)] = u
		}
	}
	return urls, nil
}

// WritePIDs replaces the table of running instances.
func (d *Dir) WritePIDs(pids map[string]int) error {
	b, err := json.MarshalIndent(pids, "", "  ")
	if err != nil {
		return fmt.Errorf("encode process ids: %w", err)
	}
	return WriteFile(d.PIDFile(), append(b, '\n'))
}

// PIDs returns the table of running instances, empty before any ran.
func (d *Dir) PIDs() (map[string]int, error) {
	pids := map[string]int{}
	b, err := readIfThere(d.PIDFile())
	if err != nil || len(b) == 0 {
		return pids, err
	}
	if err := json.Unmarshal(b, &pids); err != nil {
		return nil, fmt.Errorf("read %q: %w", d.PIDFile(), err)
	}
	return pids, nil
}

// WriteGeneration keeps the generation that is about to open. It is on disk when WriteGeneration returns.
func (d *Dir) WriteGeneration(gen uint32) error {
	return WriteFile(d.GenerationFile(), []byte(strconv.FormatUint(uint64(gen), 10)+"\n"))
}

// Generation returns the last generation opened, 0 before the first.
func (d *Dir) Generation() (uint32, error) {
	b, err := readIfThere(d.GenerationFile())
	if err != nil || len(b) == 0 {
		return 0, err
	}
	gen, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("read %q: %w", d.GenerationFile(), err)
	}
	return uint32(gen), nil
}

// WriteJSON replaces the file at path by v, indented, as WriteFile does.
func WriteJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %q: %w", path, err)
	}
	return WriteFile(path, append(b, '\n'))
}

// WriteFile replaces the file at path: readers see the old or the new bytes, never a part, and the new ones are
// on disk when it returns.
func WriteFile(path string, b []byte) error { return write(path, b, os.Rename) }

// writeOnce is WriteFile for a file that must not exist yet; fs.ErrExist otherwise.
func writeOnce(path string, b []byte) error { return write(path, b, os.Link) }

func write(path string, b []byte, place func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	defer os.Remove(f.Name()) // gone already after a rename
	_, err = f.Write(b)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = place(f.Name(), path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func readIfThere(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read run directory: %w", err)
	}
	return b, nil
}
