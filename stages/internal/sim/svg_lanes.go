package sim

import (
	"fmt"
	"maps"
	"slices"

	"penstock/stages/internal/account"
)

const (
	lanesShown   = 10 // of a stage
	stagesShown  = 3
	windowsShown = 6
)

// lanes are the instances that are drawn: of a stage with many, some. The old policy has no packers.
func (r *Result) lanes() (shown []*instance) {
	packers := r.w.packers
	if r.Policy == Old {
		packers = nil
	}
	for _, list := range [][]*instance{r.w.targets, packers, r.w.ranks} {
		n := min(len(list), lanesShown)
		for i := range n {
			shown = append(shown, list[i*len(list)/n])
		}
	}
	return shown
}

// drawLanes draws what each instance does over the first windows, and returns where the drawing ends.
func (r *Result) drawLanes(p *picture, lanes []*instance, y0 float64) float64 {
	commits := r.w.commits
	x := axis{0, commits[min(len(commits), windowsShown)-1].at, left, plot}
	title := "What each device does, over the first windows (dashed: a window commits)"
	switch {
	case r.Policy == Old:
		title = "What each device does at first (dashed: a window's worth of batches is trained)"
	case len(lanes) < len(r.w.all()):
		title = fmt.Sprintf("What some of the %d targets, %d packers and %d ranks do, over the first windows (dashed: a window commits)", len(r.w.targets), len(r.w.packers), len(r.w.ranks))
	}
	p.text(left, y0-14, 13, "start", ink, title)
	y1 := y0 + float64(len(lanes))*(lane+laneGap) + 2*laneGap*stagesShown
	p.seconds(x, y0, y1)
	y := y0
	stage := ""
	seen := map[string]bool{}
	for _, i := range lanes {
		if i.stage != stage {
			stage = i.stage
			y += 2 * laneGap
		}
		p.text(left-8, y+lane-3, 11, "end", ink, i.name)
		for _, s := range i.spans {
			w := s.within(x.from, x.to) / (x.to - x.from) * plot
			if w < 0.15 || !drawn(i.stage, s.what) {
				continue
			}
			if s.bucket < 0 || s.what != account.Compute {
				seen[s.what] = true
			}
			p.rect(x.of(s.from), y, w, lane, r.colour(s))
		}
		y += lane + laneGap
	}
	for _, m := range commits[:min(len(commits), windowsShown)] {
		p.line(x.of(m.at), y0, x.of(m.at), y1, dashed)
	}
	r.legend(p, y0+8, seen)
	return y1
}

// drawn reports whether an activity is shown: packers wait most of the time, and may.
func drawn(stage, what string) bool { return stage != packStage || what != account.NoInput }

func (r *Result) colour(s span) string {
	if s.what == account.Compute {
		return r.shade(s.bucket)
	}
	return colours[s.what]
}

// legend explains the colours, right of the lanes: work by bucket, then whatever else was seen.
func (r *Result) legend(p *picture, y float64, seen map[string]bool) {
	const x = left + plot + 24
	p.text(x, y+2, 12, "start", ink, "computing, by bucket")
	y += 12
	columns := 2
	n := len(r.w.buckets)
	rows := (n + columns - 1) / columns
	for i := range r.w.buckets {
		at := y + float64(i%rows)*17
		dx := float64(i/rows) * 88
		p.rect(x+dx, at, 12, 12, r.shade(i))
		p.text(x+dx+17, at+10, 11, "start", ink, r.w.buckets[i].name)
	}
	y += float64(rows)*17 + 8
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		p.rect(x, y, 12, 12, colours[what])
		p.text(x+17, y+10, 11, "start", ink, caption(what))
		y += 17
	}
}

// caption names an activity in the picture.
func caption(what string) string {
	switch what {
	case account.Window:
		return "waiting for the window"
	case account.Copy:
		return "copying"
	case account.Step:
		return "optimizer step"
	}
	return what
}
