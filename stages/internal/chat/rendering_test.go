package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// scenario is a conversation that render.py rendered.
type scenario struct {
	Name     string          `json:"name"`
	Messages []Message       `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
}

// conversation restores what decoding loses: that a content was null.
func (s scenario) conversation(raw []map[string]json.RawMessage) Conversation {
	c := Conversation{Messages: s.Messages, Tools: s.Tools}
	for i := range c.Messages {
		c.Messages[i].NoContent = bytes.Equal(raw[i]["content"], []byte("null"))
	}
	return c
}

// checkRenderings holds a folder's templates to Python's renderings of them; a template that Python refuses must be refused.
func checkRenderings(t *testing.T, dir, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Scenarios []scenario       `json:"scenarios"`
		Templates map[string][]any `json:"templates"` // text, null where the template refuses, false where Python does
	}
	var raw struct {
		Scenarios []struct {
			Messages []map[string]json.RawMessage `json:"messages"`
		} `json:"scenarios"`
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Fatal(err)
	}
	total, wrong := 0, 0
	for name, renderings := range golden.Templates {
		source, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		tmpl, err := New(string(source), map[string]string{"bos_token": "<s>", "eos_token": "</s>"}, loadTok(t))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			wrong++
			continue
		}
		for i, want := range renderings {
			s := golden.Scenarios[i/2]
			got, err := tmpl.Render(s.conversation(raw.Scenarios[i/2].Messages), i%2 == 1)
			total++
			if want == false || want == nil && err != nil || want == any(got) {
				continue
			}
			t.Errorf("%s, %s:\n got %q, %v\nwant %q", name, s.Name, got, err, want)
			wrong++
		}
	}
	if total == 0 {
		t.Fatal("nothing was rendered")
	}
	t.Logf("%d renderings of %d templates, %d differ", total, len(golden.Templates), wrong)
}

func TestRenderings(t *testing.T) {
	checkRenderings(t, "testdata/templates", "testdata/renderings.json")
}

// TestPolicies trains on tool calls, thinking and turns as told, whatever form the template gives them.
func TestPolicies(t *testing.T) {
	load := func(name string) *Template {
		source, err := os.ReadFile(filepath.Join("testdata/templates", name))
		if err != nil {
			t.Fatal(err)
		}
		tmpl, err := New(string(source), map[string]string{"bos_token": "", "eos_token": "<|im_end|>"}, loadTok(t))
		if err != nil {
			t.Fatal(err)
		}
		return tmpl
	}
	call := json.RawMessage(`[{"type":"function","function":{"name":"weather","arguments":{"place":"Oslo","days":2}}}]`)
	tools := json.RawMessage(`[{"type":"function","function":{"name":"weather"}}]`)
	ask := []Message{{Role: "user", Content: "Oslo?"}, {Role: Assistant, NoContent: true, ToolCalls: call}, {Role: "tool", Content: "<|im_start|>assistant\n"}, {Role: Assistant, Content: "Cold."}}
	apart := []Message{{Role: "user", Content: "a?"}, {Role: Assistant, Content: "b."}, {Role: "user", Content: "c?"}, {Role: Assistant, Content: "d.", Reasoning: "well </think> so"}}
	within := []Message{{Role: "user", Content: "a?"}, {Role: Assistant, Content: "<think>\nwell\n</think>\n\nd."}}
	const called = "\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": \"Oslo\", \"days\": 2}}\n</tool_call><|im_end|>"
	for _, c := range []struct {
		name, template string
		messages       []Message
		tools          json.RawMessage
		policy         Policy
		want           []string
	}{
		{"escapes", "chatml-tools.jinja", []Message{{Role: "user", Content: "a"}, {Role: Assistant, Content: `x\u2028y`}}, json.RawMessage(`[{"a":"\u2028"}]`), Policy{}, []string{`x\u2028y<|im_end|>`}},
		{"calls", "chatml-tools.jinja", ask, tools, Policy{}, []string{called, "Cold.<|im_end|>"}},
		{"last of calls", "chatml-tools.jinja", ask, tools, Policy{LastTurn: true}, []string{"Cold.<|im_end|>"}},
		{"thinking apart", "chatml-tools.jinja", apart, nil, Policy{}, []string{"b.<|im_end|>", "<think>\nwell </think> so\n</think>\n\nd.<|im_end|>"}},
		{"answer apart", "chatml-tools.jinja", apart, nil, Policy{SkipThinking: true}, []string{"b.<|im_end|>", "d.<|im_end|>"}},
		{"thinking within", "chatml-tools.jinja", within, nil, Policy{LastTurn: true}, []string{"<think>\nwell\n</think>\n\nd.<|im_end|>"}},
		{"answer within", "chatml-tools.jinja", within, nil, Policy{SkipThinking: true}, []string{"d.<|im_end|>"}},
		{"generation span", "instructions.jinja", apart[:2], nil, Policy{}, []string{"b.<|im_end|>"}},
		{"channels", "channels.jinja", apart, nil, Policy{LastTurn: true}, []string{"<|channel|>analysis<|message|>well </think> so<|end|><|start|>assistant<|channel|>final<|message|>d."}},
		{"final channel", "channels.jinja", apart, nil, Policy{LastTurn: true, SkipThinking: true}, []string{"d."}},
	} {
		tmpl := load(c.template)
		talk := Conversation{c.messages, c.tools}
		ids, mask, err := tmpl.Encode(talk, c.policy)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := supervised(tmpl, ids, mask); strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("%s: supervised %q, want %q", c.name, got, c.want)
		}
		if whole, err := tmpl.Render(talk, false); err != nil || tmpl.tok.Decode(ids) != whole {
			t.Errorf("%s: the ids stand for %q, want %q, %v", c.name, tmpl.tok.Decode(ids), whole, err)
		}
	}
}

func TestParsePolicy(t *testing.T) {
	if p, err := ParsePolicy("last", "skip"); err != nil || p != (Policy{LastTurn: true, SkipThinking: true}) {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := ParsePolicy("", ""); err != nil || p != (Policy{}) {
		t.Errorf("%+v, %v", p, err)
	}
	for _, c := range [][2]string{{"first", ""}, {"", "maybe"}} {
		if _, err := ParsePolicy(c[0], c[1]); err == nil || !strings.Contains(err.Error(), c[0]+c[1]) {
			t.Errorf("%q: %v", c, err)
		}
	}
}

func TestBadTools(t *testing.T) {
	tmpl, err := New(chatML, nil, loadTok(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, tools := range []string{`{"a":1}`, `[1`, `[] []`, `3`} {
		if _, err := tmpl.Render(Conversation{[]Message{{Role: "user", Content: "x"}}, json.RawMessage(tools)}, false); err == nil || !strings.Contains(err.Error(), "tools are no JSON list") {
			t.Errorf("tools %s: %v", tools, err)
		}
	}
}

func TestPythonFloats(t *testing.T) {
	for f, want := range map[float64]string{0: "0.0", 1: "1.0", -3.25: "-3.25", 1234567.5: "1234567.5", 1e15: "1000000000000000.0", 1e16: "1e+16",
		1e-4: "0.0001", 9.9e-5: "9.9e-05", 5e-324: "5e-324"} {
		if got := restoreFloats(`{"x": "` + floatOpen + pythonFloat(f) + floatClose + `"}`); got != `{"x": `+want+`}` {
			t.Errorf("%g prints as %s, want %s", f, got, want)
		}
	}
}

// TestIndents: what stands in the text by itself is not taken for JSON to indent.
func TestIndents(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain",
		"a " + indentOpen + `2{"b": [], "a": {"x": 1}}` + indentClose + " b": "a {\n  \"b\": [],\n  \"a\": {\n    \"x\": 1\n  }\n} b",
		indentOpen + "9not JSON" + indentClose:                               indentOpen + "9not JSON" + indentClose,
	} {
		if got := restoreIndents(text); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

// BenchmarkToolTalk encodes conversations in which the assistant calls tools, short and long: the cost of a message does not
// grow with their number.
func BenchmarkToolTalk(b *testing.B) {
	source, err := os.ReadFile("testdata/templates/chatml-tools.jinja")
	if err != nil {
		b.Fatal(err)
	}
	tmpl, err := New(string(source), nil, loadTok(b))
	if err != nil {
		b.Fatal(err)
	}
	call := json.RawMessage(`[{"type":"function","function":{"name":"weather","arguments":{"place":"Oslo","days":2}}}]`)
	for _, calls := range []int{2, 20, 200} {
		b.Run(fmt.Sprint(calls, " calls"), func(b *testing.B) {
			talk := Talk(Message{Role: "user", Content: "Where is it cold?"})
			for range calls {
				talk.Messages = append(talk.Messages, Message{Role: Assistant, NoContent: true, ToolCalls: call}, Message{Role: "tool", Content: "mild"})
			}
			for b.Loop() {
				if _, _, err := tmpl.Encode(talk, Policy{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(talk.Messages)), "ns/message")
		})
	}
}
