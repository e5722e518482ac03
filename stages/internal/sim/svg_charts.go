package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// drawStock draws, bucket upon bucket, how many batches are captured and not yet trained on.
func (r *Result) drawStock(p *picture, y0 float64) float64 {
	const bins = 2 * points
	stock := make([][]float64, len(r.w.buckets))
	for b := range stock {
		stock[b] = r.stock(b, bins)
	}
	most := 1.0
	for k := range bins {
		sum := 0.0
		for b := range stock {
			sum += stock[b][k]
		}
		most = max(most, sum)
	}
	x, y := axis{0, r.Seconds, left, plot}, axis{0, most, y0 + chart, -chart}
	p.text(left, y0-14, 13, "start", ink, "Stock: batches captured and not yet trained on, by bucket")
	p.seconds(x, y0, y0+chart)
	p.values(y, "")
	base := make([]float64, bins)
	for b := range stock {
		var upper, lower []string
		for k := range bins {
			at := x.of(r.Seconds * float64(k) / (bins - 1))
			lower = append(lower, fmt.Sprintf("%.1f,%.1f", at, y.of(base[k])))
			base[k] += stock[b][k]
			upper = append(upper, fmt.Sprintf("%.1f,%.1f", at, y.of(base[k])))
		}
		slices.Reverse(lower)
		p.add(`<polygon points="%s %s" fill="%s"/>`, strings.Join(upper, " "), strings.Join(lower, " "), r.shade(b))
	}
	r.stockTable(p, y0)
	return y0 + chart
}

// stock is a bucket's stock at equal times.
func (r *Result) stock(bucket, bins int) []float64 {
	var steps []point
	for _, b := range r.w.batches {
		if b.bucket == bucket && b.at.claimed >= b.at.captured {
			steps = append(steps, point{b.at.captured, 1}, point{b.at.claimed, -1})
		}
	}
	slices.SortFunc(steps, func(a, b point) int { return cmp.Compare(a.at, b.at) })
	out := make([]float64, bins)
	at, sum := 0, 0.0
	for k := range bins {
		for ; at < len(steps) && steps[at].at <= r.Seconds*float64(k)/float64(bins-1); at++ {
			sum += steps[at].value
		}
		out[k] = sum
	}
	return out
}

// stockTable lists, right of the stock, how long batches of each bucket wait in it.
func (r *Result) stockTable(p *picture, y float64) {
	const x = left + plot + 24
	p.text(x, y-2, 12, "start", ink, "mean wait in stock")
	n := len(r.w.buckets)
	rows := (n + 1) / 2
	if rows > 7 { // more would not fit beside the chart
		rows = 7
	}
	for i := range min(n, 2*rows) {
		b := r.w.buckets[i*n/min(n, 2*rows)].name
		p.text(x+float64(i/rows)*88, y+16+float64(i%rows)*15, 11, "start", faint, fmt.Sprintf("%s %.3g s", b, r.Waits[b].Stock))
	}
}

// drawHeld draws the bytes of captures that are held, and how many the slots have room for.
func (r *Result) drawHeld(p *picture, y0 float64) float64 {
	most := max(r.PeakBytes, r.SlotBytes)
	unit, name := 1e9, " GB"
	if most > 2e12 {
		unit, name = 1e12, " TB"
	}
	x, y := axis{0, r.Seconds, left, plot}, axis{0, max(1e-9, most/unit), y0 + chart, -chart}
	p.text(left, y0-14, 13, "start", ink, "Captures held")
	p.seconds(x, y0, y0+chart)
	p.values(y, name)
	line := []string{fmt.Sprintf("%.1f,%.1f", x.of(0), y.of(0))}
	for _, v := range r.Held {
		line = append(line, fmt.Sprintf("%.1f,%.1f", x.of(v[0]), y.of(v[1]/unit)))
	}
	line = append(line, fmt.Sprintf("%.1f,%.1f", x.of(r.Seconds), y.of(0)))
	p.add(`<polygon points="%s" fill="#9cc5a1" stroke="#3a7d5c"/>`, strings.Join(line, " "))
	const side = left + plot + 24
	p.text(side, y0+10, 11, "start", faint, fmt.Sprintf("at most %.1f%s", r.PeakBytes/unit, name))
	if r.SlotBytes > 0 {
		p.line(left, y.of(r.SlotBytes/unit), left+plot, y.of(r.SlotBytes/unit), dashed)
		p.text(side, y0+26, 11, "start", faint, fmt.Sprintf("dashed: all slots, %.1f%s", r.SlotBytes/unit, name))
	}
	return y0 + chart
}

// drawMix draws how far each window, or all windows up to it, is off the buckets' shares.
func (r *Result) drawMix(p *picture, y0 float64) {
	x, y := axis{0, r.Seconds, left, plot}, axis{0, max(1.2, r.MixError*1.1), y0 + chart, -chart}
	p.text(left, y0-14, 13, "start", ink, "Mix: the most by which a window, or all up to it, is off a bucket's share, in batches")
	p.seconds(x, y0, y0+chart)
	p.values(y, "")
	for _, v := range r.MixErrors {
		p.add(`<circle cx="%.1f" cy="%.1f" r="2.2" fill="#0b3c78"/>`, x.of(v[0]), y.of(v[1]))
	}
	p.line(left, y.of(1), left+plot, y.of(1), dashed)
	p.text(left+plot+24, min(y.of(1)+4, y0+chart), 11, "start", faint, "dashed: the rule, below 1")
}
