package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"penstock/schema"
)

const root = "../../.."

// guides returns the text of each guide by its name.
func guides(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(root + "/deploy/docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no guides: %v", err)
	}
	out := map[string]string{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = string(b)
	}
	return out
}

var (
	command = regexp.MustCompile("(?:bin/)?penstock ([a-z]+)((?: [^`|\n#);&]*)?)")
	flag    = regexp.MustCompile(`--([a-z-]+)`)
	setKey  = regexp.MustCompile(`--set ([a-z_]+\.[a-z_]+)=`)
	task    = regexp.MustCompile(`\./task ([a-z:]+)`)
	link    = regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`)
	path    = regexp.MustCompile("`((?:deploy|stages|broker|kernels|schema)/[A-Za-z0-9_./-]+)`")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

func TestGuidesNameCommandsThatExist(t *testing.T) {
	commands := map[string]bool{}
	cmds := newRoot(streams{}).Commands()
	for name, text := range guides(t) {
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			found := false
			for _, c := range cmds {
				if c.Name() != m[1] {
					continue
				}
				found = true
				commands[m[1]] = true
				for _, f := range flag.FindAllStringSubmatch(m[2], -1) {
					if c.Flags().Lookup(f[1]) == nil {
						t.Errorf("%s: penstock %s has no --%s", name, m[1], f[1])
					}
				}
			}
			if !found {
				t.Errorf("%s: there is no penstock %s", name, m[1])
			}
		}
	}
	for _, want := range []string{"status", "up", "stop", "doctor", "ledger"} {
		if !commands[want] {
			t.Errorf("no guide uses penstock %s", want)
		}
	}
}

func TestGuidesNameKeysTasksAndFilesThatExist(t *testing.T) {
	b, err := os.ReadFile(root + "/Taskfile.yml")
	if err != nil {
		t.Fatal(err)
	}
	var tasks struct{ Tasks map[string]any }
	if err := yaml.Unmarshal(b, &tasks); err != nil {
		t.Fatal(err)
	}
	c := schema.Default()
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := yaml.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	all := guides(t)
	for name, text := range all {
		for _, m := range task.FindAllStringSubmatch(text, -1) {
			if tasks.Tasks[m[1]] == nil {
				t.Errorf("%s: there is no task %s", name, m[1])
			}
		}
		for _, m := range setKey.FindAllStringSubmatch(text, -1) {
			section, key, _ := strings.Cut(m[1], ".")
			if in, _ := keys[section].(map[string]any); in == nil || !has(in, key) {
				t.Errorf("%s: the configuration has no %s", name, m[1])
			}
		}
		for _, m := range path.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			to, ok := all[m[1]]
			if m[1] == "" {
				to, ok = text, true
			}
			if !ok || m[2] != "" && !anchored(to, m[2][1:]) {
				t.Errorf("%s: link to %s%s leads nowhere", name, m[1], m[2])
			}
		}
	}
}

func has(m map[string]any, key string) bool {
	_, ok := m[key]
	return ok
}

// anchored reports whether a text has a heading of that anchor.
func anchored(text, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		slug := strings.ToLower(strings.NewReplacer(" ", "-", "?", "", ",", "", ":", "", "`", "").Replace(m[1]))
		if slug == anchor {
			return true
		}
	}
	return false
}
