package doctor

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"penstock/schema"
	"penstock/stages/internal/geometry"
	"penstock/stages/internal/nvml"
)

const demo = "../../../deploy/demo/"

// config is a valid configuration of the demo, with changes.
func config(t *testing.T, sets ...string) schema.Config {
	t.Helper()
	sets = append([]string{
		"target.dir=" + demo + "models/tiny-go", "target.taps=1,2,4", "data.files=" + demo + "data/tiny-go-chat.jsonl",
		"data.max_length=512", "batch.tokens=1024", "draft.layers=2", "draft.block_size=8",
	}, sets...)
	cfg, err := schema.ParseConfig("test", nil, sets)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// copyModel copies the demo's model without one file.
func copyModel(t *testing.T, without string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob(demo + "models/tiny-go/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(f) == without {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestInputs(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		sets []string
		want []string // "name: words" of each problem
	}{
		{"all well", nil, nil},
		{"tap outside", []string{"target.taps=1,6"}, []string{"target.taps: 6 is outside"}},
		{"mask token outside", []string{"draft.mask_token_id=2048"}, []string{"draft.mask_token_id: 2048 is outside"}},
		{"no such model", []string{"target.dir=" + t.TempDir()}, []string{"target: ", "tokenizer: "}},
		{"no weights", []string{"target.dir=" + copyModel(t, "model.safetensors")}, []string{"target: "}},
		{"no template", []string{"target.dir=" + copyModel(t, "chat_template.jinja")}, []string{"chat template: "}},
		{"empty and missing data", []string{"data.files=" + empty + ",/none"}, []string{"data: " + empty + " is empty", "data: read data file \"/none\""}},
		{"no features", []string{"target.features=" + t.TempDir()}, []string{"target.features: open features"}},
		{"too long", []string{"data.max_length=5000", "batch.tokens=5000"}, []string{"data.max_length: 5000 exceeds the target's 4096"}},
		{"no drafter", []string{"draft.init=path:/none"}, []string{"draft.init: "}},
		{"three at once", []string{"target.taps=9", "eval.prompts=/none", "data.files=" + demo + "models"}, []string{"target.taps", "data: folder \"" + demo + "models\" holds no data file", "eval.prompts"}},
	} {
		checks, target := Inputs(config(t, c.sets...))
		if target != nil {
			target.Close()
		}
		var got []string
		if err := checks.Err(); err != nil {
			got = strings.Split(err.Error(), "\n")
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: problems %q, want %q", c.name, got, c.want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], c.want[i]) {
				t.Errorf("%s: problem %q, want %q", c.name, got[i], c.want[i])
			}
		}
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	err = Machine(config(t, "broker.port="+port), t.TempDir()).Err()
	if err == nil || !strings.Contains(err.Error(), "broker.port: 127.0.0.1:"+port+" is in use") {
		t.Fatalf("err = %v", err)
	}
	if err := Machine(config(t), t.TempDir()).Err(); err != nil {
		t.Fatalf("any free port: %v", err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	err = Machine(config(t, "metrics.port="+strconv.Itoa(n-2), "page.port="+port), t.TempDir()).Err() // the third process's, unless one of the first two is taken as well
	for _, want := range []string{"page.port: 127.0.0.1:" + port + " is in use", "metrics.port: 127.0.0.1:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %s", err, want)
		}
	}
}

func TestAddressElsewhere(t *testing.T) {
	cfg := config(t)
	for group, host := range map[string]*string{"broker": &cfg.Broker.Host, "page": &cfg.Page.Host, "metrics": &cfg.Metrics.Host} {
		former := *host
		*host = "203.0.113.7" // of documentation
		err := Machine(cfg, t.TempDir()).Err()
		if err == nil || !strings.HasPrefix(err.Error(), group+".host: 203.0.113.7 cannot be bound: ") {
			t.Errorf("err = %v", err)
		}
		*host = former
	}
}

func TestPlan(t *testing.T) {
	m, err := geometry.Lookup("qwen3-8b")
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t, "device=cuda", "target.instances=5", "target.slots=3", "batch.tokens=49152", "pack.instances=3", "draft.ranks=3", "draft.layers=5")
	cfg.Target.Taps = m.Taps
	sizes := map[string]int64{}
	for _, i := range Plan(cfg, m.Open(), nil) {
		sizes[i.Process+" "+i.Purpose] = i.Bytes
	}
	for what, want := range map[string]float64{
		"target 3 capture slots":    3 * 49152 * 5 * 4096 * 2,
		"pack 4 slots":              4 * 49152 * 5 * 4096 * 2,
		"target weights":            2 * (34*192.9e6 + 2*151936*4096),
		"draft embedding and head":  2 * 2 * 151936 * 4096,
		"draft weights and moments": 14 * (5*192.9e6 + 5*4096*4096),
		"draft 6 gradients":         6 * 4 * (5*192.9e6 + 5*4096*4096), // three on their way, part and sum, and another's part
		"draft exchange, 4 sets":    4 * 4 * (5*192.9e6 + 5*4096*4096), // a part, weights and moments
	} {
		if got := float64(sizes[what]); got < want*0.999 || got > want*1.001 {
			t.Errorf("%s: %.0f bytes, want %.0f", what, got, want)
		}
	}
}

// TestPlanForSeveralGPUs: what is read may lie on another one, so packers and drafters have room for a slot of it.
func TestPlanForSeveralGPUs(t *testing.T) {
	m, err := geometry.Lookup("tiny-go")
	if err != nil {
		t.Fatal(err)
	}
	landings := func(device string) map[string]int64 {
		out := map[string]int64{}
		for _, i := range Plan(config(t, "device="+device), m.Open(), nil) {
			if i.Purpose == "copy from another GPU" && i.Device {
				out[i.Process] += i.Bytes
			}
		}
		return out
	}
	if got := landings("cuda:5"); len(got) != 0 {
		t.Errorf("on one GPU: %v", got)
	}
	slot := int64(1024 * 3 * m.Open().HiddenSize * 2)
	for device, want := range map[string]int64{"cuda:0-1": slot, "cuda:0-1/float32": 2 * slot} {
		if got := landings(device); got["pack"] != want || got["draft"] != want || len(got) != 2 {
			t.Errorf("on %s: %v, want %d", device, got, want)
		}
	}
}

func TestGPUs(t *testing.T) {
	for _, bad := range []string{"", "8", "8x", "x8GiB", "0x8GiB", "8x141", "8x-1GiB", "8x1TB"} {
		if g, err := ParseGPUs(bad); err == nil {
			t.Errorf("%q: parsed as %+v", bad, g)
		}
	}
	g, err := ParseGPUs("2x1.5GiB")
	if err != nil || g.N != 2 || g.Bytes != 3<<29 {
		t.Fatalf("%+v, %v", g, err)
	}
	items := []Item{{"target", 2, "weights", 1 << 30, true}, {"pack", 1, "slots", 1 << 20, true}, {"draft", 1, "weights", 400 << 20, true}, {"draft", 1, "process", 1 << 40, false}}
	checks := g.Fit(items)
	if err := checks.Err(); len(checks) != 2 || err != nil {
		t.Fatalf("checks %v, %v", checks, err)
	}
	items[2].Bytes = 1 << 30 // beside target-1
	if err := g.Fit(items).Err(); err == nil || !strings.Contains(err.Error(), "gpu 0: target-1, pack-1, draft-1 need 2.0 GiB of 1.5 GiB") {
		t.Fatalf("err = %v", err)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 141 << 30: "141 GiB", 5 << 50: "5120 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestPurposes(t *testing.T) {
	items := []Item{{"target", 2, "3 capture slots", 1 << 20, true}, {"target", 2, "weights", 3 << 20, true}, {"pack", 1, "4 slots", 5 << 20, true},
		{"draft", 1, "weights", 1 << 20, true}, {"draft", 1, "process", 1 << 30, false}}
	if got, want := Purposes(items), "weights 7 MiB, slots 5 MiB, capture slots 2 MiB"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestFitsEachGPU: each of several GPUs is held against what is free on it.
func TestFitsEachGPU(t *testing.T) {
	items := []Item{{"target", 1, "weights", 3 << 20, true}, {"pack", 2, "4 slots", 1 << 20, true}, {"draft", 2, "weights", 5 << 20, true}, {"draft", 2, "process", 1 << 40, false}}
	cfg := config(t, "device=cuda:2-3")
	free := map[int]uint64{2: 9 << 20, 3: 6 << 20}
	read := func(index int) (nvml.State, error) { return nvml.State{Total: free[index] + 7, Used: 7}, nil }
	if c := fitsGPU(cfg, items, read); len(c) != 2 || c.Err() != nil || !strings.Contains(c[0].Detail, "needs 9 MiB") || !strings.Contains(c[1].Detail, "needs 6 MiB") {
		t.Errorf("%+v", c)
	}
	free[3]--
	if err := fitsGPU(cfg, items, read).Err(); err == nil || !strings.HasPrefix(err.Error(), "gpu 3: the plan needs 6 MiB") || strings.Contains(err.Error(), "gpu 2") {
		t.Errorf("one byte too few on GPU 3: %v", err)
	}
}

func TestDeviceTriesEach(t *testing.T) {
	if c := Device(config(t, "device=cuda:4096-4098")); len(c) != 3 || c[0].OK || !strings.Contains(c[2].Detail, "cuda:4098") {
		t.Errorf("%+v", c)
	}
}

func TestFitsGPU(t *testing.T) {
	cfg := config(t)
	if c := FitsGPU(cfg, nil); len(c) != 0 {
		t.Errorf("on no GPU: %v", c)
	}
	cfg.Device = "cuda:4096"
	c := FitsGPU(cfg, []Item{{"target", 1, "weights", 3 << 20, true}})
	if len(c) != 1 || !c[0].OK || !strings.Contains(c[0].Detail, "the plan needs 3 MiB; how much is free") {
		t.Errorf("where the driver does not tell: %v", c)
	}
}
