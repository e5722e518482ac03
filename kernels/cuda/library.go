//go:build cuda

package cuda

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/ebitengine/purego"
)

// openLibrary loads the first of the names that loads from the first of the directories; an empty directory stands for the loader's
// path. The error has each failure but of what is not in a directory.
func openLibrary(dirs, names []string) (uintptr, error) {
	var errs []error
	for _, dir := range dirs {
		for _, name := range names {
			path := filepath.Join(dir, name)
			if _, err := os.Stat(path); dir != "" && err != nil {
				continue
			}
			lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
			if err == nil {
				return lib, nil
			}
			errs = append(errs, err)
		}
	}
	return 0, errors.Join(errs...)
}
