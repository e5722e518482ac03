package accept

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"penstock/schema/hf"
	"penstock/stages/internal/model"
)

const (
	demo    = "../../../deploy/demo/"
	tinyGo  = demo + "models/tiny-go"
	trained = demo + "golden/tiny-go-trained"
	heldOut = demo + "data/tiny-go-heldout-prompts.json"
)

// goldenDecode is what an independent implementation decoded.
type goldenDecode struct {
	Cases []struct {
		ID       string  `json:"id"`
		Prompt   []int32 `json:"prompt_ids"`
		Accepted []int   `json:"accepted_per_round"`
	} `json:"cases"`
}

func readGolden(t *testing.T) goldenDecode {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(trained, "decode.json"))
	if err != nil {
		t.Fatal(err)
	}
	var g goldenDecode
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// openDrafter opens the golden drafter's weights with the configuration of its shape.
func openDrafter(t *testing.T) *hf.Drafter {
	t.Helper()
	cfg, err := hf.ReadDrafterConfig(demo + "golden/tiny-go/drafter_config.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := hf.OpenDrafter(cfg, trained+"/drafter.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestPromptsEncodeLikeTheGoldenOnes(t *testing.T) {
	g := readGolden(t)
	prompts, err := encode(Options{Target: tinyGo, Prompts: heldOut, Limit: len(g.Cases)}, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(prompts) != len(g.Cases) {
		t.Fatalf("%d prompts, want %d", len(prompts), len(g.Cases))
	}
	for i, c := range g.Cases {
		if prompts[i].id != c.ID || !slices.Equal(prompts[i].ids, c.Prompt) {
			t.Errorf("%s: ids differ:\n%v\n%v", c.ID, prompts[i].ids, c.Prompt)
		}
	}
}

func TestTrainedDrafterIsMeasured(t *testing.T) {
	g := readGolden(t)
	const n = 4
	rounds, tokens := 0, 0
	for _, c := range g.Cases[:n] {
		rounds += len(c.Accepted)
		for _, a := range c.Accepted {
			tokens += a
		}
	}
	d := openDrafter(t)
	o := Options{Device: "cpu", Target: tinyGo, Prompts: heldOut, Limit: n, MaxNew: 96, Workers: 1}
	r, err := Measure(context.Background(), o, model.Files(d), d.DrafterConfig)
	if err != nil {
		t.Fatal(err)
	}
	o.Workers = 3
	if again, err := Measure(context.Background(), o, model.Files(d), d.DrafterConfig); err != nil || !cmp.Equal(again, r) {
		t.Errorf("with 3 workers %+v, %v; with one %+v", again, err, r)
	}
	if r.Prompts != n || r.Rounds != rounds || r.Tokens != tokens || math.Abs(r.AcceptLength-float64(tokens)/float64(rounds)) > 1e-12 {
		t.Errorf("report %+v, want %d rounds, %d tokens", r, rounds, tokens)
	}
	if len(r.PerPosition) != 7 || !slices.IsSortedFunc(r.PerPosition, func(a, b float64) int { return int(math.Copysign(1, b-a)) }) {
		t.Errorf("per position %v: want 7 falling shares", r.PerPosition)
	}
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d := openDrafter(t)
	_, err := Measure(ctx, Options{Device: "cpu", Target: tinyGo, Prompts: heldOut, Limit: 1, MaxNew: 96}, model.Files(d), d.DrafterConfig)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v", err)
	}
}

func TestBadPromptFiles(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ":1: "},
		{"[]", "empty"},
		{"[\n{\"id\": \"a\", \"prompt\": \"x\"},\n{\"id\": 3}]", ":3: "},
		{`[{"id": "a"}]`, `entry 0 (id "a")`},
		{`{"id": "a"}`, ":1: "},
	} {
		path := filepath.Join(t.TempDir(), "prompts.json")
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readPrompts(path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: error %v, want %q and the path in it", c.text, err, c.want)
		}
	}
}
