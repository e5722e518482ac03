package chat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"penstock/stages/internal/tokenizer"
)

const demo = "../../../deploy/demo"

func loadTok(tb testing.TB) *tokenizer.Tokenizer {
	tb.Helper()
	tok, err := tokenizer.Load(filepath.Join(demo, "models/tiny-go/tokenizer.json"))
	if err != nil {
		tb.Fatal(err)
	}
	return tok
}

func TestGolden(t *testing.T) {
	tmpl, err := Load(filepath.Join(demo, "models/tiny-go"), loadTok(t))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(demo, "golden/tiny-go/chat.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Messages []Message
		Rendered string
		IDs      []int32
		Mask     []int `json:"assistant_mask"`
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatal("no golden cases")
	}
	for i, c := range cases {
		text, err := tmpl.Render(Talk(c.Messages...), false)
		if err != nil || text != c.Rendered {
			t.Errorf("case %d: Render = %q, %v, want %q", i, text, err, c.Rendered)
		}
		ids, mask, err := tmpl.Encode(Talk(c.Messages...), Policy{})
		if err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		if !slices.Equal(ids, c.IDs) {
			t.Errorf("case %d: ids\n got %v\nwant %v", i, ids, c.IDs)
		}
		want := make([]uint8, len(c.Mask))
		for j, m := range c.Mask {
			want[j] = uint8(m)
		}
		if !slices.Equal(mask, want) {
			t.Errorf("case %d: mask\n got %v\nwant %v", i, mask, want)
		}
	}
}
