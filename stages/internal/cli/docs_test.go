package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"penstock/schema"
	"penstock/stages/internal/runtime"
)

const root = "../../.."

// guides returns the text of each guide and of the README by its name.
func guides(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(root + "/deploy/docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no guides: %v", err)
	}
	files = append(files, root+"/README.md")
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
	binary  = regexp.MustCompile("bin/(broker|batch|target|pack|draft)( [^`|\n#);&]*)")
	setKey  = regexp.MustCompile(`--set ([a-z_]+(?:\.[a-z_]+)?)=`)
	quoted  = regexp.MustCompile("`([a-z_]+(?:\\.[a-z_0-9]+)?)(?:[=:][^`]*)?`")
	example = regexp.MustCompile("(?s)```yaml\n(.*?)```")
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
					known := c.Flags().Lookup(f[1]) != nil
					for _, sub := range c.Commands() {
						known = known || sub.Flags().Lookup(f[1]) != nil
					}
					if !known {
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
	keys, all := configKeys(t), guides(t)
	for name, text := range all {
		for _, m := range task.FindAllStringSubmatch(text, -1) {
			if tasks.Tasks[m[1]] == nil {
				t.Errorf("%s: there is no task %s", name, m[1])
			}
		}
		for _, m := range setKey.FindAllStringSubmatch(text, -1) {
			if m[1] != "key" && !has(keys, m[1]) {
				t.Errorf("%s: the configuration has no %s", name, m[1])
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			section, key, nested := strings.Cut(m[1], ".")
			if _, ok := keys[section].(map[string]any); ok && nested && !isFile(key) && !has(keys, m[1]) {
				t.Errorf("%s: the configuration has no %s", name, m[1])
			}
		}
		for _, m := range path.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			to := text
			if m[1] != "" {
				b, err := os.ReadFile(filepath.Join(folder(name), m[1]))
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				to = string(b)
			}
			if m[2] != "" && !anchored(to, m[2][1:]) {
				t.Errorf("%s: link to %s%s leads nowhere", name, m[1], m[2])
			}
		}
	}
}

var fence = regexp.MustCompile("(?s)```([a-z]*)\n(.*?)```")

// TestModelsGuidePlansAsItSays has doctor plan the guide's configurations, the second on top of the first, and holds what it
// says against what the guide shows of it.
func TestModelsGuidePlansAsItSays(t *testing.T) {
	file, gpus := filepath.Join(t.TempDir(), "qwen3-8b.yaml"), []string{"1x141GiB", "8x141GiB"}
	cfg := map[string]any{}
	for _, m := range fence.FindAllStringSubmatch(guides(t)["models.md"], -1) {
		if m[1] == "yaml" {
			more := map[string]any{}
			if err := yaml.Unmarshal([]byte(m[2]), &more); err != nil {
				t.Fatal(err)
			}
			merge(cfg, more)
		}
		if m[1] != "" || !strings.HasPrefix(m[2], "ok ") {
			continue
		}
		if len(gpus) == 0 {
			t.Fatalf("a plan more than is known of:\n%s", m[2])
		}
		b, err := yaml.Marshal(cfg)
		if err == nil {
			err = os.WriteFile(file, b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		// Whether the plan fits is the guide's matter; whether this machine has GPUs is not.
		_ = runDoctor(runtime.Flags{Config: file}, "qwen3-8b", gpus[0], &out, false)
		gpus = gpus[1:]
		for line := range strings.Lines(m[2]) {
			if line = strings.TrimSpace(line); line != "…" && !strings.Contains(out.String(), line) {
				t.Errorf("doctor does not say %q:\n%s", line, out.String())
			}
		}
	}
	if len(gpus) > 0 {
		t.Errorf("the guide has no plan for %v", gpus)
	}
}

func merge(into, more map[string]any) {
	for k, v := range more {
		a, ok := into[k].(map[string]any)
		b, also := v.(map[string]any)
		if ok && also {
			merge(a, b)
		} else {
			into[k] = v
		}
	}
}

// folder is where a guide lies.
func folder(name string) string {
	if name == "README.md" {
		return root
	}
	return root + "/deploy/docs"
}

// configKeys is the configuration with every key that there is.
func configKeys(t *testing.T) map[string]any {
	t.Helper()
	c := schema.Default()
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := yaml.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	return keys
}

func has(keys map[string]any, key string) bool {
	section, rest, nested := strings.Cut(key, ".")
	in, ok := keys[section]
	if !nested {
		return ok
	}
	m, ok := in.(map[string]any)
	return ok && has(m, rest)
}

// isFile reports whether what stands behind the dot is a file's ending and no key.
func isFile(ending string) bool {
	return ending == "json" || ending == "yaml" || ending == "jsonl" || ending == "log" || ending == "url" || ending == "html"
}

// TestGuidesStartBinariesAsTheyAre holds the flags of the stage binaries.
func TestGuidesStartBinariesAsTheyAre(t *testing.T) {
	var f runtime.Flags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Register(flags)
	found := 0
	for name, text := range guides(t) {
		for _, m := range binary.FindAllStringSubmatch(text, -1) {
			found++
			for _, g := range flag.FindAllStringSubmatch(m[2], -1) {
				if flags.Lookup(g[1]) == nil && g[1] != "instance" {
					t.Errorf("%s: bin/%s has no --%s", name, m[1], g[1])
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("the guides start %d binaries by hand", found)
	}
}

// TestGuidesConfigureWhatCanRun parses every configuration that a guide shows; what one leaves out is filled in.
func TestGuidesConfigureWhatCanRun(t *testing.T) {
	found := 0
	for name, text := range guides(t) {
		for _, m := range example.FindAllStringSubmatch(text, -1) {
			found++
			if _, err := schema.ParseConfig(name, []byte(m[1]), []string{"target.dir=models/x", "target.taps=[1]", "data.files=[x.jsonl]"}); err != nil {
				t.Errorf("%v\n%s", err, m[1])
			}
		}
	}
	if found < 3 {
		t.Errorf("the guides show %d configurations", found)
	}
}

var (
	variable = regexp.MustCompile(`\bPENSTOCK_[A-Z_]+`)
	inProse  = regexp.MustCompile("`--([a-z-]+)")
	testName = regexp.MustCompile(`\b(?:Test[A-Z]\w+|[a-z]+\.txtar)`)
)

// sources returns the Go sources below the root, those of tests apart. Those of brokertest serve tests alone.
func sources(t *testing.T) (code, tests string) {
	t.Helper()
	var texts [2]strings.Builder
	for _, dir := range []string{"broker", "deploy", "kernels", "schema", "stages"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			b, err := os.ReadFile(path)
			of := 0
			if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "brokertest") {
				of = 1
			}
			texts[of].Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return texts[0].String(), texts[1].String()
}

// TestGuidesNameTheEnvironment: a guide names every variable of Penstock's own that is read, and none else.
func TestGuidesNameTheEnvironment(t *testing.T) {
	code, _ := sources(t)
	named := map[string]string{}
	for name, text := range guides(t) {
		for _, v := range variable.FindAllString(text, -1) {
			named[v] = name
		}
	}
	read := map[string]bool{}
	for _, v := range variable.FindAllString(code, -1) {
		read[v] = true
		if named[v] == "" {
			t.Errorf("no guide names %s", v)
		}
	}
	for v, name := range named {
		if !read[v] {
			t.Errorf("%s: nothing reads %s", name, v)
		}
	}
}

// TestGuidesNameFlagsThatExist holds flags that stand by themselves in prose. Lines with an address tell of other programs.
func TestGuidesNameFlagsThatExist(t *testing.T) {
	known := map[string]bool{"help": true}
	var collect func(c *cobra.Command)
	collect = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		for _, sub := range c.Commands() {
			collect(sub)
		}
	}
	collect(newRoot(streams{}))
	for name, text := range guides(t) {
		for line := range strings.Lines(text) {
			for _, m := range inProse.FindAllStringSubmatch(line, -1) {
				if !known[m[1]] && !strings.Contains(line, "](https://") {
					t.Errorf("%s: no command has --%s", name, m[1])
				}
			}
		}
	}
}

// TestReadmeNamesTestsThatExist: the promises of the README are held by tests that there are.
func TestReadmeNamesTestsThatExist(t *testing.T) {
	_, tests := sources(t)
	names := testName.FindAllString(guides(t)["README.md"], -1)
	if len(names) < 30 {
		t.Errorf("the README names %d tests", len(names))
	}
	for _, name := range names {
		_, err := os.Stat(filepath.Join("testdata", name))
		if strings.HasPrefix(name, "Test") && !strings.Contains(tests, "func "+name+"(") || !strings.HasPrefix(name, "Test") && err != nil {
			t.Errorf("README.md: there is no %s", name)
		}
	}
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

// TestReadmeNamesACheckpointThatIsKept: the checkpoint that the README exports is one that the default run leaves.
func TestReadmeNamesACheckpointThatIsKept(t *testing.T) {
	m := regexp.MustCompile(`checkpoints/window-(\d+)`).FindAllStringSubmatch(guides(t)["README.md"], -1)
	t.Chdir(root)
	c, err := schema.LoadConfig(runtime.DefaultConfig, nil)
	if err != nil || len(m) == 0 {
		t.Fatalf("%d checkpoints named, %v", len(m), err)
	}
	for _, name := range m {
		window, err := strconv.Atoi(name[1])
		if behind := c.Train.MaxSteps - window; err != nil || behind < 0 || behind%c.Save.Every != 0 || behind/c.Save.Every >= c.Save.Keep {
			t.Errorf("a run of %d steps that saves every %d and keeps %d has no %s at its end", c.Train.MaxSteps, c.Save.Every, c.Save.Keep, name[0])
		}
	}
}
