package prepare

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// rejectFile lists rejected rows, one JSON line each. It is written aside and put in place by commit.
type rejectFile struct {
	path string
	file *os.File
	out  *bufio.Writer
	rows int
}

// rejected is one line of the reject file.
type rejected struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Reason string `json:"reason"`
	Detail string `json:"detail"`
}

func createRejects(path string) (*rejectFile, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".aside-"+filepath.Base(path)+"-*")
	if err != nil {
		return nil, fmt.Errorf("create reject file: %w", err)
	}
	return &rejectFile{path: path, file: f, out: bufio.NewWriter(f)}, nil
}

func (r *rejectFile) add(file string, line int, no refusal) error {
	b, err := json.Marshal(rejected{file, line, no.reason, no.detail})
	if err != nil {
		return fmt.Errorf("write reject file: %w", err)
	}
	r.rows++
	if _, err := r.out.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("write reject file: %w", err)
	}
	return nil
}

// commit puts the file in place and returns its path. Without rows there is no file, and the path is empty.
func (r *rejectFile) commit() (string, error) {
	defer r.abort()
	if r.rows == 0 {
		if err := os.Remove(r.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("remove former reject file: %w", err)
		}
		return "", nil
	}
	err := errors.Join(r.out.Flush(), r.file.Chmod(0o644), r.file.Sync())
	if err == nil {
		err = os.Rename(r.file.Name(), r.path)
	}
	if err != nil {
		return "", fmt.Errorf("write reject file: %w", err)
	}
	return r.path, nil
}

// firstReject reads the first row of a reject file.
func firstReject(path string) (no rejected, err error) {
	f, err := os.Open(path)
	if err != nil {
		return no, fmt.Errorf("read reject file: %w", err)
	}
	defer f.Close()
	if err := json.NewDecoder(f).Decode(&no); err != nil {
		return no, fmt.Errorf("read reject file %s: %w", path, err)
	}
	return no, nil
}

// abort removes what is not in place yet. After commit it does nothing, so it may be deferred.
func (r *rejectFile) abort() {
	if r.file == nil {
		return
	}
	r.file.Close()
	os.Remove(r.file.Name())
	r.file = nil
}
