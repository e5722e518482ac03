package schema

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// demo is a configuration that lacks nothing, in a directory of its own.
func demo(t *testing.T) (path string, dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, f := range []string{"model/config.json", "chats.jsonl", "prompts.json"} {
		f = filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return write(t, dir, `target:
  dir: model
  taps: [1, 2, 4]
data:
  files: [chats.jsonl]
  max_length: 512
  buckets: 128, 256, 512
draft:
  block_size: 8
eval:
  prompts: prompts.json
  every: 100
`), dir
}

func write(t *testing.T, dir, text string) string {
	t.Helper()
	path := filepath.Join(dir, "run.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadConfig(t *testing.T) {
	path, dir := demo(t)
	c, err := LoadConfig(path, []string{"train.lr=2e-3", "target.taps=1,3", "window.batches = 2", "draft.init=random", "deterministic=true", "data.buckets=auto:4"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Train.LR != 2e-3 || !reflect.DeepEqual(c.Target.Taps, []int{1, 3}) || c.Window.Batches != 2 || c.Draft.Init != "random" || !c.Deterministic || c.Data.Buckets != "auto:4" {
		t.Errorf("sets: %+v", c)
	}
	if c.Target.Dir != filepath.Join(dir, "model") || c.Data.Files[0] != filepath.Join(dir, "chats.jsonl") {
		t.Errorf("paths: %q, %q", c.Target.Dir, c.Data.Files)
	}
	if c.Train.Gamma != 4 {
		t.Errorf("gamma of blocks of 8: %g", c.Train.Gamma)
	}
	if c, err = LoadConfig(path, []string{"train.gamma=0", "target.taps=[0, 5]"}); err != nil || c.Train.Gamma != 0 || c.Target.Taps[1] != 5 {
		t.Errorf("%g, %v, %v", c.Train.Gamma, c.Target.Taps, err)
	}
}

// The working directory comes before the file's own.
func TestRelativePaths(t *testing.T) {
	path, _ := demo(t)
	here := t.TempDir()
	t.Chdir(here)
	if err := os.WriteFile("chats.jsonl", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := LoadConfig(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(here, "chats.jsonl"); c.Data.Files[0] != want {
		t.Errorf("%q, want %q", c.Data.Files[0], want)
	}
}

func TestDefaultRun(t *testing.T) {
	t.Chdir("..")
	c, err := LoadConfig("deploy/config/tiny.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(c.Target.Dir) {
		t.Errorf("target.dir %q", c.Target.Dir)
	}
}

func TestYAMLRoundTrip(t *testing.T) {
	path, _ := demo(t)
	c, err := LoadConfig(path, []string{"train.lr=0.00061", "seed=18446744073709551615", "broker.url=nats://a:4222"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseConfig("config.yaml", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, c) {
		t.Errorf("comes back as %+v, want %+v\n%s", back, c, text)
	}
	for _, k := range keysUnder("") {
		if meaning[k] == "" || !strings.Contains(string(text), "# "+meaning[k]+"\n") {
			t.Errorf("%s has no meaning in\n%s", k, text)
		}
	}
}

func TestLoadProblems(t *testing.T) {
	path, dir := demo(t)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		sets       []string
		want       []string
	}{
		{"unknown keys", "trian:\n  lr: 1\ntrain:\n  learn: 1\n  los: dflash\nanchors: 3\n", nil, []string{
			`run.yaml:1: unknown key "trian"; did you mean train?`,
			`run.yaml:4: unknown key "train.learn"`,
			`run.yaml:5: unknown key "train.los"; did you mean train.loss?`,
			`run.yaml:6: unknown key "anchors"; did you mean train.anchors?`,
			`run.yaml: target.dir: is not set`, `run.yaml: data.files: is not set`, `run.yaml: target.taps: is not set`}},
		{"types", "train:\n  lr: fast\n  epochs: 1.5\ndeterministic: 3\ntarget: 7\nseed: -1\ndata:\n  files: a.jsonl\n", nil, []string{
			`run.yaml:2: train.lr: want a number, found "fast"`, `run.yaml:3: train.epochs: want an integer, found "1.5"`,
			`run.yaml:4: deterministic: want true or false, found "3"`, `run.yaml:5: target: want keys and values, found "7"`,
			`run.yaml:6: seed: want an integer from 0 on, found "-1"`, `run.yaml:8: data.files: want a list, found "a.jsonl"`}},
		{"twice and null", "seed: 1\nseed: 2\ntrain:\n  lr:\n", nil, []string{
			"run.yaml:2: seed: stands twice", "run.yaml:4: train.lr: want a number, found nothing"}},
		{"dotted", "train.lr: 3\n", nil, []string{`run.yaml:1: unknown key "train.lr"`}},
		{"documents", "seed: 1\n---\nseed: 2\n", nil, []string{"run.yaml:2: a second YAML document"}},
		{"ranges", string(good) + "train:\n  lr: 0\n  loss: mse\n  warmup: 2\nwindow:\n  batches: 257\nsave:\n  keep: 0\nbroker:\n  ack_wait: soon\n", nil, []string{
			"run.yaml:14: train.lr: 0 is not above 0", `run.yaml:15: train.loss: "mse" is not one of dflash, dpace`, "run.yaml:16: train.warmup: 2 is not in 0..1",
			"run.yaml:18: window.batches: 257 is not in 1..256", "run.yaml:20: save.keep: 0 is not in", `run.yaml:22: broker.ack_wait: "soon" is not a duration`}},
		{"missing files", string(good), []string{"target.dir=nowhere", "data.files=chats.jsonl,lost.jsonl", "draft.init=path:gone"}, []string{
			"--set target.dir=nowhere: target.dir: there is no nowhere (looked for ", filepath.Join(dir, "nowhere"),
			"--set data.files=chats.jsonl,lost.jsonl: data.files: there is no lost.jsonl", "draft.init: there is no gone"}},
		{"bad sets", string(good), []string{"train.lr", "train.lrr=1", "train=1", "train.lr=x", "target.taps=1,b", "seed=[1"}, []string{
			"--set train.lr: is not key=value", `--set train.lrr=1: unknown key "train.lrr"; did you mean train.lr?`,
			"--set train=1: train is a group, name one of its keys: train.anchors, train.slots, train.lr", `--set train.lr=x: train.lr: want a number, found "x"`,
			`--set target.taps=1,b: target.taps: element 1: want an integer, found "b"`, "--set seed=[1: seed: cannot read the value"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := LoadConfig(write(t, dir, c.text), c.sets)
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("lacks %q:\n%v", w, err)
				}
			}
		})
	}
	if _, err := LoadConfig(filepath.Join(dir, "none.yaml"), nil); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("no file: %v", err)
	}
}

// TestTornFile: a file that is no YAML has one problem. What it does not say and what --set brings is not judged.
func TestTornFile(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"train:\n  lr: [\n":               "run.yaml:2: this is no YAML: did not find expected node content",
		"seed: 1\ntrain:\n\tlr: 1\n":      "run.yaml:3: this is no YAML: found character that cannot start",
		"a: b: c\n":                       "run.yaml: this is no YAML: mapping values are not allowed",
		"seed: 1\n---\ntrain:\n  lr: [\n": "run.yaml:4: this is no YAML: ",
	} {
		path := write(t, dir, text)
		_, err := LoadConfig(path, []string{"train.lr=x", "target.dir=nowhere"})
		if err == nil || !strings.HasPrefix(err.Error(), filepath.Join(dir, want)) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	path, _ := demo(t)
	good, err := LoadConfig(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for set, ok := range map[string]bool{
		"device=cuda:1": true, "device=cuda": true, "device=cuda:1/float32": true, "device=cuda/float32": true, "device=cuda:1/float16": false, "device=cuda:0-7": true, "device=cuda:0-7/float32": true, "device=cuda:1-1": false, "device=cuda:7-0": false, "device=cuda:0-": false, "device=float32": false, "device=cuda:": false, "device=gpu": false, "device=cpu:0": false, "device=cpu/avx2": true, "device=cpu/": false, "device=null": true,
		"target.taps=[2,1]": false, "target.taps=[1,1]": false, "target.taps=[-1]": false, "target.taps=[]": false, "target.taps=0": true,
		"target.slots=1": false, "pack.slots=1": false, "target.instances=0": false, "pack.noise=-0.1": false, "pack.noise=.nan": false,
		"data.buckets=auto:0": false, "data.buckets=auto:x": false, "data.buckets=512": true, "data.buckets=256,128,512": false, "data.buckets=128,256": false, "data.buckets=": false,
		"data.turns=last": true, "data.turns=first": false, "data.thinking=skip": true, "data.thinking=": false, "data.held_out=0.1": true, "data.held_out=1": false,
		"data.max_length=9000": false, "data.max_length=1": false, "batch.tokens=511": true, "batch.tokens=0": false, "window.batches=256": true, "window.batches=0": false, "window.lookahead=0": false,
		"train.lr=-1": false, "train.lr=.inf": false, "train.loss=dpace": true, "train.gamma=-1": false, "train.alpha=1.5": false, "train.schedule=step": false,
		"train.beta1=1": false, "train.clip=0": false, "train.clip=.inf": false, "train.max_steps=-1": false, "train.anchors=0": false,
		"draft.block_size=1": false, "draft.block_size=2": true, "draft.window=-1": false, "draft.window=7": false, "draft.window=8": true, "draft.mask_token_id=-2": false,
		"draft.init=path:": false, "draft.init=zero": false, "draft.ranks=0": false, "draft.ranks=8": true, "draft.ranks=65": false, "draft.ranks=9": false, "draft.reduce=host": true, "draft.reduce=nccl": false,
		"eval.prompts=": false, "eval.limit=0": false, "broker.url=localhost": false, "broker.url=nats://h:4222": true, "broker.port=70000": false,
		"broker.ack_wait=5ms": false, "broker.sync=never": false, "broker.host=": false, "save.every=-1": false,
		"metrics.port=65531": true, "metrics.port=65532": false, "metrics.port=-1": false, "page.host=": false,
	} {
		_, err := LoadConfig(path, []string{set})
		if key, _, _ := strings.Cut(set, "="); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), key+": ") && !strings.Contains(err.Error(), "max_length") {
			t.Errorf("--set %s: %v", set, err)
		}
	}
}

// TestWarnings: ranks that do not divide a window share it unevenly, and GPUs may be more than there are processes for.
func TestWarnings(t *testing.T) {
	path, _ := demo(t)
	for sets, want := range map[string]string{
		"window.batches=8 draft.ranks=1": "", "window.batches=24 draft.ranks=3": "",
		"window.batches=16 draft.ranks=3":                                                    "window.batches 16 is not a multiple of draft.ranks 3: some ranks wait at the end of each step; 15 or 18 would not",
		"device=cuda target.instances=1":                                                     "",
		"device=cuda:0-1 target.instances=1":                                                 "",
		"device=cuda:0-7 target.instances=5 pack.instances=1 draft.ranks=3 window.batches=3": "",
		"device=cuda:1-4 target.instances=1 pack.instances=2":                                "device cuda:1-4 has 4 GPUs, and only 3 get a process: use more target.instances or draft.ranks, or fewer GPUs",
	} {
		c, err := LoadConfig(path, strings.Fields(sets))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(c.Warnings(), "; "); got != want {
			t.Errorf("%s: %q, want %q", sets, got, want)
		}
	}
}

func TestDiff(t *testing.T) {
	path, dir := demo(t)
	a, err := LoadConfig(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := a
	if d := Diff(a, b); d != nil {
		t.Errorf("equal ones differ: %v", d)
	}
	b.Train.LR, b.Target.Taps = 0.002, []int{1, 3}
	b.Target.Instances, b.Broker.Port, b.Save.Every = 9, 4222, 1 // placement: free to change
	if err := os.Symlink(filepath.Join(dir, "model"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	b.Target.Dir = filepath.Join(dir, "link") // the same place
	want := []string{"target.taps: [1 2 4] → [1 3]", "train.lr: 0.0006 → 0.002"}
	if d := Diff(a, b); !reflect.DeepEqual(d, want) {
		t.Errorf("%q, want %q", d, want)
	}
	b = a
	b.Data.Files = []string{filepath.Join(dir, "prompts.json")}
	if d := Diff(a, b); len(d) != 1 || !strings.HasPrefix(d[0], "data.files: ") {
		t.Errorf("%q", d)
	}
}

func TestNumbersSurviveYAML(t *testing.T) {
	path, _ := demo(t)
	base, err := LoadConfig(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		want := base
		want.Train.LR = rapid.Float64Range(1e-12, 1).Draw(t, "lr")
		want.Seed = rapid.Uint64().Draw(t, "seed")
		text, err := want.YAML()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseConfig("c", text, nil)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}

func FuzzParseConfig(f *testing.F) {
	f.Add("target:\n  dir: x\n  taps: [1, 2]\ndata: {files: [a]}\n", "train.lr=1")
	f.Add("a: &x [*x]\n<<: *x\n", "target.taps=[1")
	f.Add("seed: 0x10\ndeterministic: yes\ntarget:\n", "data.files=a,b")
	f.Fuzz(func(t *testing.T, text, set string) {
		c, err := ParseConfig("c.yaml", []byte(text), []string{set})
		if err != nil {
			return
		}
		out, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseConfig("c.yaml", out, nil)
		if err != nil || !reflect.DeepEqual(back, c) {
			t.Fatalf("%+v comes back as %+v: %v\n%s", c, back, err, out)
		}
	})
}

// TestMaskTokenIsArithmetic: a run does not go on with another mask token.
func TestMaskTokenIsArithmetic(t *testing.T) {
	a, b := Default(), Default()
	b.Draft.MaskTokenID = 7
	if d := Diff(a, b); !reflect.DeepEqual(d, []string{"draft.mask_token_id: -1 → 7"}) {
		t.Errorf("%q", d)
	}
}

func TestSuggest(t *testing.T) {
	for wrong, want := range map[string]string{"train.los": "train.loss", "trian": "train", "anchors": "train.anchors", "optimizer.lr": "train.lr",
		"foo.bar": "", "gpu.count": "", "learning_rate": "", "x": "", "": ""} {
		if got := suggest(wrong); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", wrong, got, want)
		}
	}
}
