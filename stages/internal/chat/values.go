package chat

import (
	"sort"
	"strings"

	"github.com/ardanlabs/jinja"
)

// today is the date that templates are told, so that the same conversation gives the same tokens on any day.
var today = strings.NewReplacer("%Y", "2024", "%y", "24", "%m", "07", "%B", "July", "%b", "Jul", "%d", "26", "%-d", "26",
	"%A", "Friday", "%a", "Fri", "%H", "00", "%M", "00", "%S", "00", "%%", "%")

// namedToken is a special token under the name by which templates use it.
type namedToken struct{ name, content string }

func sorted(tokens map[string]string) (list []namedToken) {
	for name, content := range tokens {
		list = append(list, namedToken{name, content})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].name < list[j].name })
	return list
}

// values are the variables of one rendering.
func (t *Template) values(p parsed, generationPrompt bool) map[string]jinja.Value {
	list := make([]jinja.Value, len(p.Messages))
	for i, m := range p.Messages {
		list[i] = m.value(p.calls[i])
	}
	v := map[string]jinja.Value{
		"messages":              jinja.NewList(list),
		"add_generation_prompt": jinja.NewBool(generationPrompt),
		"tools":                 p.tools,
		"documents":             jinja.None(),
		"strftime_now":          jinja.NewCallable("strftime_now", formatToday),
	}
	for _, n := range t.tokens {
		v[n.name] = jinja.NewString(n.content)
	}
	return v
}

func formatToday(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	layout := "%Y-%m-%d"
	if len(args) > 0 && args[0].IsString() {
		layout = args[0].AsString()
	}
	return jinja.NewString(today.Replace(layout)), nil
}
