package schema

import (
	"os"
	"path/filepath"
	"strings"
)

// resolve makes every path absolute and notes those that lead nowhere. base is the configuration file's directory.
func (p *loader) resolve(base string) {
	c := &p.cfg
	p.path("target.dir", &c.Target.Dir, base, true)
	for i := range c.Data.Files {
		p.path("data.files", &c.Data.Files[i], base, true)
	}
	p.path("target.features", &c.Target.Features, base, true)
	p.path("eval.prompts", &c.Eval.Prompts, base, true)
	p.path("data.store", &c.Data.Store, base, false)
	if dir, ok := strings.CutPrefix(c.Draft.Init, "path:"); ok {
		p.path("draft.init", &dir, base, true)
		c.Draft.Init = "path:" + dir
	}
}

func (p *loader) path(key string, path *string, base string, exists bool) {
	if *path == "" {
		return
	}
	here, err := filepath.Abs(*path)
	if err != nil {
		p.badValue(key, "%s: %v", *path, err)
		return
	}
	tried := []string{here}
	if there, err := filepath.Abs(filepath.Join(base, *path)); err == nil && !filepath.IsAbs(*path) && there != here {
		tried = append(tried, there)
	}
	for _, t := range tried {
		_, err := os.Stat(t)
		if found, _ := filepath.Glob(t); err == nil || key == "data.files" && len(found) > 0 {
			*path = t
			return
		}
		if !os.IsNotExist(err) {
			p.badValue(key, "%v", err)
			return
		}
	}
	if exists {
		p.badValue(key, "there is no %s (looked for %s)", *path, strings.Join(tried, " and "))
		return
	}
	*path = here
}
