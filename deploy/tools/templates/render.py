#!/usr/bin/env python3
"""Renders chat templates with Jinja2 as Python's transformers set it up: render.py OUT.json TEMPLATE...

Makes stages/internal/chat/testdata/renderings.json, and renderings of any other templates to compare with (see compare.sh).
Needs the package jinja2.
"""
import datetime, json, os, sys
import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def fail(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    env.globals["raise_exception"] = fail
    env.globals["strftime_now"] = datetime.datetime(2024, 7, 26).strftime
    return env


def u(text): return {"role": "user", "content": text}
def a(text, **more): return {"role": "assistant", "content": text, **more}
def s(text): return {"role": "system", "content": text}
def call(name, **arguments): return {"type": "function", "function": {"name": name, "arguments": arguments}}


weather = {"type": "function", "function": {"name": "weather", "description": "Tells the weather <here> & there, 'now'", "parameters": {
    "type": "object", "properties": {"place": {"type": "string", "description": "Städte"}, "days": {"type": "integer", "minimum": 1}, "exact": {"type": "number", "default": 0.5}},
    "required": ["place"], "additionalProperties": False, "z": None, "a": [1, 2.5, True]}}}
scenarios = [
    {"name": "one turn", "messages": [u("Hi?"), a("Hello.")]},
    {"name": "system", "messages": [s("Be brief."), u(" Hi? "), a("\nHello.\n")]},
    {"name": "several turns", "messages": [s("Be brief."), u("a?"), a("b."), u("c?"), a("d\n\ne."), u("f?"), a("g")]},
    {"name": "unicode and markup", "messages": [u("naïve <b>\"x\"</b> & 日本 👩‍👩‍👧 {{ 1 }} {% if %}"), a("it's `{'a': 1}` <|im_end|> ok")]},
    {"name": "thinking in the content", "messages": [u("a?"), a("<think>\nhm\n</think>\n\nb."), u("c?"), a("<think>\nwell\n</think>\n\nd.")]},
    {"name": "thinking apart", "messages": [u("a?"), a("b.", reasoning_content="hm"), u("c?"), a("d.", reasoning_content="\nwell\n")]},
    {"name": "tools offered", "messages": [s("Be brief."), u("a?"), a("b.")], "tools": [weather, {"type": "function", "function": {"name": "now", "parameters": {}}}]},
    {"name": "tool call", "messages": [u("Oslo?"), a(None, tool_calls=[call("weather", place="Oslo", days=2)]),
                                       {"role": "tool", "content": "{\"t\": -3.5}", "name": "weather", "tool_call_id": "1"}, a("Cold.")], "tools": [weather]},
    {"name": "call beside an empty text", "messages": [u("Oslo?"), a("", tool_calls=[call("weather", place="Oslo", days=2)])], "tools": [weather]},
    {"name": "two calls", "messages": [u("Oslo, Rom?"), a("Let me see.", tool_calls=[call("weather", place="Oslo"), call("weather", place="Røm", exact=1.0)]),
                                       {"role": "tool", "content": "cold"}, {"role": "tool", "content": "warm"}, a("Cold and warm.")], "tools": [weather]},
    {"name": "odd values", "messages": [u("x"), a(None, tool_calls=[call("weather", a=1e20, b=1e-7, c=-0.0, d=True, f=[[], {}, ""], g=12345678901234567890, h=-98765432109876543210)]),
                                        {"role": "tool", "content": "\\u2028 \\\\u2029", "name": "weather", "tool_call_id": "1"}, a("ok")], "tools": [weather]},
    {"name": "separators", "messages": [s("a\u2028b"), u("\u2029 \\ \x7f"), a("c \u2028")],
     "tools": [{"type": "function", "function": {"name": "f", "description": "one\u2028two\u2029\n\t\\ \"three\"", "parameters": {"type": "object", "properties": {}}}}]},
    {"name": "thinking and calls", "messages": [u("a"), a("", reasoning_content="r1", tool_calls=[call("weather", place="x")]), {"role": "tool", "content": "t"}, a("b", reasoning_content="r2"),
                                                u("c"), a("d", reasoning_content="r3")], "tools": [weather]},
    {"name": "blanks", "messages": [s(" s\n"), u("\n\n u \n"), a("\n\n a \n\n"), u("\t"), a(" \u00a0x\u3000 ")]},
    {"name": "broken thinking", "messages": [u("a"), a("x </think> y <think> z"), u("b"), a("<think></think>"), u("c"), a("<think>open")]},
    {"name": "ends with the user", "messages": [u("a?"), a("b."), u("c?")]},
]
tokens = {"bos_token": "<s>", "eos_token": "</s>"}
out = {"scenarios": scenarios, "templates": {}}
for path in sys.argv[2:]:
    source = open(path).read()
    template = environment().from_string(source)
    rendered = []
    for c in scenarios:
        for prompt in (False, True):
            if any(m["content"] is None for m in c["messages"]) and "tool_calls" not in source:
                rendered.append(False)  # Python writes the word None
                continue
            try:
                rendered.append(template.render(messages=c["messages"], tools=c.get("tools"), documents=None, add_generation_prompt=prompt, **tokens))
            except jinja2.exceptions.TemplateError:
                rendered.append(None)
            except TypeError:  # Python's own refusal, which the template does not mean: either is right
                rendered.append(False)
    out["templates"][os.path.basename(path)] = rendered
json.dump(out, open(sys.argv[1], "w"), ensure_ascii=False, indent=1)
print(len(out["templates"]), "templates,", len(scenarios), "scenarios")
