package sim

import (
	"fmt"
	"html"
	"strings"

	"penstock/stages/internal/account"
)

// The picture, in pixels: a heading, a lane for each device over the first windows, and three charts over the whole run.
const (
	width    = 1240
	left     = 96
	right    = 210
	plot     = width - left - right
	lane     = 15
	laneGap  = 4
	chart    = 110
	chartGap = 58
	top      = 112
)

// colours of what instances do; work on a batch has the colour of its bucket.
var colours = map[string]string{
	account.NoInput: "#f4d06f", account.NoSlot: "#d1495b", account.NoCredit: "#ef8a3c", account.Window: "#cfcfcf",
	account.Copy: "#9a7fc7", account.Step: "#3a7d5c", down: "#333333",
}

// picture is an SVG that grows.
type picture struct{ strings.Builder }

func (p *picture) add(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// text writes at a place; anchor is start, middle or end.
func (p *picture) text(x, y float64, size int, anchor, fill, s string) {
	p.add(`<text x="%.1f" y="%.1f" font-size="%d" text-anchor="%s" fill="%s">%s</text>`, x, y, size, anchor, fill, html.EscapeString(s))
}

func (p *picture) rect(x, y, w, h float64, fill string) {
	p.add(`<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="%s"/>`, x, y, w, h, fill)
}

func (p *picture) line(x1, y1, x2, y2 float64, style string) {
	p.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`, x1, y1, x2, y2, style)
}

const (
	ink    = "#222222"
	faint  = "#777777"
	grid   = `stroke="#e4e4e4"`
	dashed = `stroke="#222222" stroke-width="0.8" stroke-dasharray="3 3"`
)

// SVG draws the run.
func (r *Result) SVG() []byte {
	lanes := r.lanes()
	laneHeight := float64(len(lanes))*(lane+laneGap) + 2*laneGap*stagesShown
	height := top + laneHeight + 40 + 3*(chart+chartGap)
	var p picture
	p.add(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%.0f" viewBox="0 0 %d %.0f" font-family="DejaVu Sans, Arial, sans-serif">`, width, height, width, height)
	p.rect(0, 0, width, height, "#ffffff")
	p.text(24, 34, 20, "start", ink, fmt.Sprintf("%s under %s", r.Scenario, r.Policy))
	p.text(24, 58, 14, "start", ink, fmt.Sprintf("%s tokens/s, %.1f %% of the bound   ·   devices idle %.1f %%   ·   at most %s held   ·   mix off by at most %.3f batches",
		thousands(r.TokensPerS), 100*r.OfBound, 100*r.DeviceIdle, size(r.PeakBytes), r.MixError))
	y := r.drawLanes(&p, lanes, top)
	y = r.drawStock(&p, y+chartGap)
	y = r.drawHeld(&p, y+chartGap)
	r.drawMix(&p, y+chartGap)
	p.add("</svg>")
	return []byte(p.String())
}

// shade is the colour of a bucket, darker for longer documents.
func (r *Result) shade(bucket int) string {
	share := 0.5
	if n := len(r.w.buckets); n > 1 {
		share = float64(bucket) / float64(n-1)
	}
	mix := func(light, dark float64) int { return int(light + (dark-light)*share) }
	return fmt.Sprintf("#%02x%02x%02x", mix(0xc4, 0x0b), mix(0xde, 0x3c), mix(0xf5, 0x78))
}

// axis is a scale on which a chart's values lie.
type axis struct{ from, to, at, size float64 }

func (a axis) of(v float64) float64 { return a.at + (v-a.from)/(a.to-a.from)*a.size }

// step is a round number, some of which make up a range.
func step(length float64, most int) float64 {
	for s := 1e-3; ; s *= 10 {
		for _, f := range []float64{1, 2, 5} {
			if length/(s*f) <= float64(most) {
				return s * f
			}
		}
	}
}

// seconds draws the scale of time below a plot.
func (p *picture) seconds(x axis, y0, y1 float64) {
	s := step(x.to-x.from, 10)
	for v := s * float64(int(x.from/s)); v <= x.to+s/1e6; v += s {
		if v < x.from {
			continue
		}
		p.line(x.of(v), y0, x.of(v), y1, grid)
		p.text(x.of(v), y1+17, 11, "middle", faint, fmt.Sprintf("%g s", v))
	}
}

// values draws the scale of values left of a plot.
func (p *picture) values(y axis, unit string) {
	s := step(y.to-y.from, 4)
	for v := y.from; v <= y.to+s/1e6; v += s {
		p.line(left, y.of(v), left+plot, y.of(v), grid)
		p.text(left-8, y.of(v)+4, 11, "end", faint, fmt.Sprintf("%g%s", v, unit))
	}
}

// thousands sets a number off in groups of three.
func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// size sets a size in the unit that fits.
func size(v float64) string {
	if v >= 2e12 {
		return fmt.Sprintf("%.1f TB", v/1e12)
	}
	return fmt.Sprintf("%.1f GB", v/1e9)
}
