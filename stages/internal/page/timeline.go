package page

import (
	"slices"

	"penstock/stages/internal/monitor"
)

const (
	liveCells  = 120 // that the live page shows, one a second
	wholeCells = 240 // that the whole run is thinned to
)

// series is the seconds that processes spent on activities, cell by cell. With more than most cells, neighbours are
// merged and the cell grows; with keep set, the oldest are dropped instead.
type series struct {
	cell  float64
	most  int
	keep  bool
	ticks int // in the last cell
	per   int // ticks of a full cell
	cells []map[string]map[string]float64
}

func newSeries(cell float64, most int, keep bool) *series {
	return &series{cell: cell, most: most, keep: keep, per: 1}
}

// tick adds what was spent since the last tick.
func (s *series) tick(spent map[string]map[string]float64) {
	if s.ticks == 0 || s.ticks == s.per {
		s.cells = append(s.cells, map[string]map[string]float64{})
		s.ticks = 0
	}
	s.ticks++
	merge(s.cells[len(s.cells)-1], spent)
	if len(s.cells) <= s.most {
		return
	}
	if s.keep {
		s.cells = slices.Delete(s.cells, 0, 1)
		return
	}
	var half []map[string]map[string]float64
	for pair := range slices.Chunk(s.cells, 2) {
		for _, c := range pair[1:] {
			merge(pair[0], c)
		}
		half = append(half, pair[0])
	}
	if len(s.cells)%2 == 0 { // the last one was merged with a full one
		s.ticks += s.per
	}
	s.cells, s.per, s.cell = half, 2*s.per, 2*s.cell
}

func merge(into, from map[string]map[string]float64) {
	for process, activities := range from {
		if into[process] == nil {
			into[process] = map[string]float64{}
		}
		for a, x := range activities {
			into[process][a] += x
		}
	}
}

// timeline returns the shares of the given processes, in their order.
func (s *series) timeline(processes []string) Timeline {
	t := Timeline{Cell: s.cell, Processes: []Process{}}
	for _, p := range processes {
		shares := map[string][]float64{}
		for i := range s.cells {
			spent := s.spent(i, p)
			sum := 0.0
			for _, x := range spent {
				sum += x
			}
			for a, x := range spent {
				if shares[a] == nil {
					shares[a] = make([]float64, len(s.cells))
				}
				if sum > 0 {
					shares[a][i] = float64(int(1000*x/sum+0.5)) / 1000
				}
			}
		}
		t.Processes = append(t.Processes, Process{p, shares})
	}
	return t
}

// spent is what a process did in a cell. A report that came a little late stands for the cell before, too.
func (s *series) spent(i int, process string) map[string]float64 {
	if len(s.cells[i][process]) == 0 && i+1 < len(s.cells) && i > 0 && len(s.cells[i-1][process]) > 0 {
		return s.cells[i+1][process]
	}
	return s.cells[i][process]
}

// meter turns the sums that processes report into what they spent since they were last asked.
type meter struct {
	last map[string]map[string]float64
	pid  map[string]int32
}

func newMeter() *meter {
	return &meter{last: map[string]map[string]float64{}, pid: map[string]int32{}}
}

// spent returns the increments. A process that was started again counts from nothing.
func (m *meter) spent(stages []monitor.Stage) map[string]map[string]float64 {
	out := map[string]map[string]float64{}
	for _, s := range stages {
		last := m.last[s.Instance]
		if m.pid[s.Instance] != s.PID {
			last = nil
		}
		d := map[string]float64{}
		for a, x := range s.Seconds {
			if dx := x - last[a]; dx > 0 {
				d[a] = dx
			}
		}
		out[s.Instance], m.last[s.Instance], m.pid[s.Instance] = d, s.Seconds, s.PID
	}
	return out
}
