package chat

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// The template engine sorts keys where it indents JSON, Python keeps their order. So a template's tojson(indent=N) of a
// variable is rendered on one line between two characters for private use, and indented in what was rendered.
const indentOpen, indentClose = "\uf8f2", "\uf8f3"

var (
	indentCall = regexp.MustCompile(`(\b[A-Za-z_]\w*(?:\.\w+)*)\s*\|\s*tojson\(\s*indent\s*=\s*(\d)\s*\)`)
	indentMark = regexp.MustCompile(`(?s)` + indentOpen + `(\d)(.*?)` + indentClose)
)

func markIndents(source string) string {
	return indentCall.ReplaceAllString(source, `("`+indentOpen+`$2" ~ ($1 | tojson) ~ "`+indentClose+`")`)
}

// restoreIndents indents the JSON between marks.
func restoreIndents(text string) string {
	if !strings.Contains(text, indentOpen) {
		return text
	}
	return indentMark.ReplaceAllStringFunc(text, func(found string) string {
		part := indentMark.FindStringSubmatch(found)
		n, _ := strconv.Atoi(part[1])
		var b bytes.Buffer
		if json.Indent(&b, []byte(part[2]), "", strings.Repeat(" ", n)) != nil {
			return found
		}
		return b.String()
	})
}
