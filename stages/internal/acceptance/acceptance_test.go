package acceptance

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

	"penstock/kernels"
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

// drafterDir puts the golden drafter's weights beside the configuration of its shape.
func drafterDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, from := range map[string]string{"drafter_config.json": demo + "golden/tiny-go/drafter_config.json", "drafter.safetensors": trained + "/drafter.safetensors"} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPromptsEncodeLikeTheGoldenOnes(t *testing.T) {
	g := readGolden(t)
	ids, err := Encode(tinyGo, heldOut, len(g.Cases))
	if err != nil {
		t.Fatal(err)
	}
	if len(ids) != len(g.Cases) {
		t.Fatalf("%d prompts, want %d", len(ids), len(g.Cases))
	}
	for i, c := range g.Cases {
		if !slices.Equal(ids[i], c.Prompt) {
			t.Errorf("%s: ids differ:\n%v\n%v", c.ID, ids[i], c.Prompt)
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
	dev := &kernels.Ref{}
	defer dev.Close()
	r, err := Directories(context.Background(), dev, Options{Target: tinyGo, Drafter: drafterDir(t), Prompts: heldOut, Limit: n, MaxNew: 96})
	if err != nil {
		t.Fatal(err)
	}
	if r.Rounds != rounds || r.Tokens != tokens || math.Abs(r.AcceptLength-float64(tokens)/float64(rounds)) > 1e-12 {
		t.Errorf("report %+v, want %d rounds, %d tokens", r, rounds, tokens)
	}
	if len(r.PerPosition) != 7 || !slices.IsSortedFunc(r.PerPosition, func(a, b float64) int { return int(math.Copysign(1, b-a)) }) {
		t.Errorf("per position %v: want 7 falling shares", r.PerPosition)
	}
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dev := &kernels.Ref{}
	defer dev.Close()
	_, err := Directories(ctx, dev, Options{Target: tinyGo, Drafter: drafterDir(t), Prompts: heldOut, Limit: 1, MaxNew: 96})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v", err)
	}
}

func TestBadPromptFiles(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "line 1"},
		{"[]", "no prompts"},
		{"[\n{\"id\": \"a\", \"prompt\": \"x\"},\n{\"id\": 3}]", "line 3"},
		{`[{"id": "a"}]`, `entry 0 (id "a")`},
		{`{"id": "a"}`, "not a list"},
	} {
		path := filepath.Join(t.TempDir(), "prompts.json")
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadPrompts(path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: error %v, want %q and the path in it", c.text, err, c.want)
		}
	}
}
