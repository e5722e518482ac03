package rundir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// nameFile holds the run's name.
const nameFile = "name"

// christen gives a new run its name. Of several processes that try, the first does.
func (d *Dir) christen() error {
	if _, err := os.Stat(d.ConfigFile()); err == nil {
		return d.recall()
	}
	var part [4]byte
	_, _ = rand.Read(part[:]) // does not fail
	err := writeOnce(d.join(nameFile), []byte(filepath.Base(d.path)+"-"+hex.EncodeToString(part[:])+"\n"))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("name the run: %w", err)
	}
	return d.recall()
}

// recall reads the run's name. A run without one is called like its directory.
func (d *Dir) recall() error {
	b, err := readIfThere(d.join(nameFile))
	if d.name = strings.TrimSpace(string(b)); d.name == "" {
		d.name = filepath.Base(d.path)
	}
	return err
}
