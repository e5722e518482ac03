package sim

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"testing"
)

// label is the place that a text takes up, with letters as wide as they get.
type label struct {
	text           string
	x0, x1, y0, y1 float64
}

// The picture is well-formed, and no two labels overlap or leave it.
func TestLabelsDoNotOverlap(t *testing.T) {
	for _, name := range []string{"seed-8gpu", "skewed-lengths", "straggler", "crash", "one-gpu", "two-gpu-shared", "pod-1024"} {
		s := load(t, name)
		if s.Lengths.Documents > 60000 {
			s.Lengths.Documents = 200_000
		}
		pictures := [][]byte{simulate(t, s, Ours).SVG()}
		if name == "seed-8gpu" {
			pictures = append(pictures, simulate(t, s, Old).SVG())
		}
		for _, svg := range pictures {
			check(t, name, parse(t, svg))
		}
	}
}

func check(t *testing.T, name string, labels []label) {
	t.Helper()
	if len(labels) < 30 {
		t.Fatalf("%s: %d labels", name, len(labels))
	}
	for i, a := range labels {
		if a.x0 < 0 || a.x1 > width {
			t.Errorf("%s: %q leaves the picture: %g..%g", name, a.text, a.x0, a.x1)
		}
		for _, b := range labels[:i] {
			if a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1 {
				t.Errorf("%s: %q and %q overlap", name, a.text, b.text)
			}
		}
	}
}

// letter is the width of a letter, as a part of the font's size.
const letter = 0.6

func parse(t *testing.T, svg []byte) (labels []label) {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(svg))
	var attr map[string]string
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return labels
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			attr = nil
			if e.Name.Local == "text" {
				attr = map[string]string{}
				for _, a := range e.Attr {
					attr[a.Name.Local] = a.Value
				}
			}
		case xml.CharData:
			if attr != nil && len(bytes.TrimSpace(e)) > 0 {
				labels = append(labels, place(t, attr, string(e)))
			}
		case xml.EndElement:
			attr = nil
		}
	}
}

func place(t *testing.T, attr map[string]string, text string) label {
	number := func(key string) float64 {
		v, err := strconv.ParseFloat(attr[key], 64)
		if err != nil {
			t.Fatalf("%s of %q: %v", key, text, err)
		}
		return v
	}
	size := number("font-size")
	w := letter * size * float64(len([]rune(text)))
	l := label{text: text, x0: number("x"), y0: number("y") - 0.75*size, y1: number("y") + 0.2*size}
	switch attr["text-anchor"] {
	case "end":
		l.x0 -= w
	case "middle":
		l.x0 -= w / 2
	}
	l.x1 = l.x0 + w
	return l
}
