package monitor

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Width is the columns of a terminal that does not say how many it has.
const Width = 80

// Line is the view in one line, for a log.
func (v View) Line() string {
	if v.Total == 0 {
		return "starting: " + v.pending()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "window %d/%d", v.Windows, v.Total)
	if v.Windows > 0 {
		fmt.Fprintf(&b, "  loss %.3f%s", v.Loss, v.entropy("  "))
	}
	if v.AcceptLength > 0 {
		fmt.Fprintf(&b, "  acceptance %.3f", v.AcceptLength)
	}
	if v.ending() {
		return b.String() + "  saving and evaluating the drafter"
	}
	if v.TokensPerS > 0 {
		fmt.Fprintf(&b, "  %s tokens/s  %s slots/s", thousands(v.TokensPerS), thousands(v.SlotsPerS))
	}
	if v.SecondsLeft >= 0 && !v.Done {
		fmt.Fprintf(&b, "  %s left", duration(v.SecondsLeft))
	}
	for _, k := range v.Buckets {
		if k.Open >= 0 {
			fmt.Fprintf(&b, "  %s %d/%d", k.Name, k.Open, k.Credit)
		}
	}
	if v.Windows == 0 {
		fmt.Fprintf(&b, "  %s", v.pending())
	}
	return b.String()
}

// ending says that every window has committed, and the drafter is not written yet.
func (v View) ending() bool { return v.Total > 0 && v.Windows == v.Total && !v.Done }

// entropy is the cross-entropy, led by a gap, where it is not the loss itself.
func (v View) entropy(gap string) string {
	if v.CrossEntropy == 0 || v.CrossEntropy == v.Loss {
		return ""
	}
	return fmt.Sprintf("%sce %.3f", gap, v.CrossEntropy)
}

// pending says what the stages wait for while nothing has been trained.
func (v View) pending() string {
	var words []string
	for _, s := range v.Stages {
		if s.State == "waiting" && s.Waiting != "" {
			words = append(words, s.Instance+" waits for "+s.Waiting)
		} else {
			words = append(words, s.Instance+" "+s.State)
		}
	}
	if len(words) == 0 {
		return "no stage has reported yet"
	}
	return strings.Join(words, ", ")
}

// Table is the view in lines of at most so many columns. What comes last in a line, and can be long, is cut first.
func (v View) Table(columns int) []string {
	var lines []string
	add := func(format string, args ...any) {
		lines = append(lines, clip(fmt.Sprintf(format, args...), columns))
	}

	share := 0.0
	if v.Total > 0 {
		share = float64(v.Windows) / float64(v.Total)
	}
	left := "time left unknown"
	switch {
	case v.Done:
		left = "done"
	case v.ending():
		left = "saving and evaluating"
	case v.SecondsLeft >= 0:
		left = duration(v.SecondsLeft) + " left"
	}
	add("window %d/%d %s %3.0f%%  %s", v.Windows, v.Total, bar(share, 24), 100*share, left)
	accept := "-"
	if v.AcceptLength > 0 {
		accept = fmt.Sprintf("%.3f", v.AcceptLength)
	}
	add("loss %.3f%s   acceptance %s   %s tokens/s   %s slots/s", v.Loss, v.entropy("   "), accept, thousands(v.TokensPerS), thousands(v.SlotsPerS))
	if v.Dead+v.Skipped > 0 {
		add("rejected batches %d   skipped steps %d", v.Dead, v.Skipped)
	}
	if len(v.Buckets) > 0 {
		add("")
		add("%-12s %6s %8s %9s %10s %10s", "bucket", "open", "credit", "range", "published", "remaining")
		for _, b := range v.Buckets {
			open := "-"
			if b.Open >= 0 {
				open = fmt.Sprint(b.Open)
			}
			add("%-12s %6s %8d %9s %10d %10d", b.Name, open, b.Credit, fmt.Sprintf("%d..%d", b.Floor, b.Ceiling), b.Published, b.Remaining)
		}
	}
	if len(v.Stages) > 0 {
		add("")
		add("%-12s %-9s %8s %12s %6s %5s  %s", "instance", "state", "batches", "tokens", "slots", "idle", "now")
		for _, s := range v.Stages {
			slots := "-"
			if s.Slots > 0 {
				slots = fmt.Sprintf("%d/%d", s.SlotsUsed, s.Slots)
			}
			add("%-12s %-9s %8d %12s %6s %4.0f%%  %s", s.Instance, s.State, s.Batches, thousands(float64(s.Tokens)), slots, 100*s.Idle, s.Waiting)
		}
	}
	return lines
}

func bar(share float64, width int) string {
	full := min(width, max(0, int(share*float64(width)+0.5)))
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}

// clip cuts s to n columns of one line.
func clip(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return ' '
	}, s)
	r := []rune(strings.TrimRight(s, " "))
	if len(r) > n {
		r = append(r[:n-1], '~')
	}
	return string(r)
}

// thousands writes x without decimals, in groups of three digits.
func thousands(x float64) string {
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	switch {
	case d >= time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%ds", int(d.Seconds()))
}
