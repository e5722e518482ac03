package prepare

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// endings are the names of data files that a folder is searched for.
var endings = []string{".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz", ".jsonl.zst", ".ndjson.zst", ".parquet"}

// Expand lists the data files that names stand for, in order: a file, a folder with the data files in it and below it by
// name, or a pattern such as data/*.jsonl. A name that stands for nothing is an error.
func Expand(names []string) ([]string, error) {
	var files []string
	for _, name := range names {
		found := []string{name}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			if found, err = inFolder(name); err != nil {
				return nil, err
			}
			if len(found) == 0 {
				return nil, fmt.Errorf("folder %q holds no data file: none ends in %s", name, strings.Join(endings, ", "))
			}
		} else if err != nil && strings.ContainsAny(name, "*?[") {
			if found, err = filepath.Glob(name); err != nil {
				return nil, fmt.Errorf("pattern %q: %w", name, err)
			}
			if len(found) == 0 {
				return nil, fmt.Errorf("pattern %q matches no file", name)
			}
		} else if err != nil {
			return nil, fmt.Errorf("read data file %q: %w", name, err)
		}
		for _, f := range found {
			if !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
	}
	return files, nil
}

func inFolder(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(d.Name(), ".") && path != dir
		switch {
		case err != nil:
			return err
		case d.IsDir() && hidden:
			return fs.SkipDir
		case !d.IsDir() && !hidden && slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(path, e) }):
			files = append(files, path)
		}
		return nil
	})
	return files, err
}
