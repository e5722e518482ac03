package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"penstock/stages/internal/monitor"
)

// display shows a run's progress: a table redrawn in place on a terminal, lines elsewhere.
type display struct {
	w     io.Writer
	tty   bool
	drawn int // lines of the table on the screen
	view  monitor.View
}

const (
	drawEvery = 200 * time.Millisecond
	lineEvery = 5 * time.Second
)

func newDisplay(w io.Writer) *display {
	return &display{w: w, tty: isTerminal(w)}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// outliveReader keeps this process alive when whoever reads its output has ended, until what it returns is called: what is shown of
// a run is then lost, the run goes on. Processes that are started meanwhile are not kept so.
func outliveReader() (end func()) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	return func() { signal.Stop(broken) }
}

// room is the columns and lines of where a table is written: without end if that is no terminal.
func room(w io.Writer) (width, height int) {
	if !isTerminal(w) {
		return math.MaxInt, math.MaxInt
	}
	width, height, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil || width < 1 || height < 2 { // it does not say
		return monitor.Width, math.MaxInt
	}
	return width, height
}

// every says how often show is worth calling.
func (d *display) every() time.Duration {
	if d.tty {
		return drawEvery
	}
	return lineEvery
}

// show replaces what is shown by v.
func (d *display) show(v monitor.View) {
	d.view = v
	if !d.tty {
		fmt.Fprintln(d.w, v.Line())
		return
	}
	d.erase()
	width, height := room(d.w)
	lines := v.Table(width) // lines that are broken, or a taller table, could not be erased
	lines = lines[:min(len(lines), height-1)]
	fmt.Fprint(d.w, strings.Join(lines, "\n"), "\n")
	d.drawn = len(lines)
}

// say adds a line that stays, above the table.
func (d *display) say(format string, args ...any) {
	d.erase()
	fmt.Fprintf(d.w, format+"\n", args...)
	if d.tty && d.view.Total > 0 {
		d.show(d.view)
	}
}

func (d *display) erase() {
	if d.drawn > 0 {
		fmt.Fprintf(d.w, "\x1b[%dA\r\x1b[J", d.drawn)
		d.drawn = 0
	}
}
