package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tailLines is how much of a dead process's log an Exit carries.
const tailLines = 8

// forker starts processes on one thread that lives as long as the supervisor: the kernel sends the parent-death
// signal when the thread that forked ends, and Go ends threads when it likes.
type forker struct{ starts chan func() }

func newForker() forker {
	f := forker{starts: make(chan func())}
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		for fn := range f.starts {
			fn()
		}
	}()
	return f
}

func (f forker) close() { close(f.starts) }

// child is one running process.
type child struct {
	cmd   *exec.Cmd
	log   *os.File
	from  int64 // size of the log when it started
	since time.Time
	stuck bool // and killed for that by its supervisor; the keeper's lock guards it
}

func (f forker) start(p Process) (*child, error) {
	log, err := os.OpenFile(p.Log, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	c := &child{cmd: exec.Command(p.Path, p.Args...), log: log, since: time.Now()}
	if c.from, err = log.Seek(0, io.SeekEnd); err != nil {
		log.Close()
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	c.cmd.Env = append(os.Environ(), p.Env...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	// A group of its own: an interrupt typed at the terminal reaches the supervisor alone, which stops in order.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	f.starts <- func() { started <- c.cmd.Start() }
	if err := <-started; err != nil {
		log.Close()
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// signal is best effort: the process may be gone already, and wait tells.
func (c *child) signal(sig syscall.Signal) { _ = c.cmd.Process.Signal(sig) }

// wait returns how the process ended.
func (c *child) wait(p Process) Exit {
	defer c.log.Close()
	err := c.cmd.Wait()
	e := Exit{Name: p.Name, PID: c.pid(), Uptime: time.Since(c.since), Log: p.Log, Tail: c.tail()}
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		e.Code = exit.ExitCode()
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			e.Signal = ws.Signal()
		}
	default:
		e.Code = -1
		e.Tail = append(e.Tail, err.Error())
	}
	return e
}

// tail returns the last lines that this process wrote.
func (c *child) tail() []string {
	size, err := c.log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	from := max(c.from, size-8<<10)
	b := make([]byte, size-from)
	n, _ := c.log.ReadAt(b, from)
	b = bytes.TrimSpace(b[:n])
	if len(b) == 0 {
		return nil
	}
	lines := strings.Split(string(b), "\n")
	return lines[max(0, len(lines)-tailLines):]
}

// Exit says how a process ended.
type Exit struct {
	Name    string
	PID     int
	Code    int            // exit code, -1 after a signal
	Signal  syscall.Signal // that ended it, 0 if none did
	Uptime  time.Duration
	Stopped bool // Stop had asked it to end
	Log     string
	Tail    []string // last lines of its log, oldest first
}

// Status says how the process ended, in words.
func (e Exit) Status() string {
	if e.Signal != 0 {
		return "ended by signal: " + e.Signal.String()
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// Failure is a process that ended for good, and not well.
type Failure struct {
	Exit
	Reason string
}

// Error names the instance, how it ended, why it is not restarted, and what it said last.
func (f *Failure) Error() string {
	last := ""
	if n := len(f.Tail); n > 0 {
		last = ": " + spoken(f.Tail[n-1])
	}
	return fmt.Sprintf("%s failed (%s; %s; log %s)%s", f.Name, f.Status(), f.Reason, filepath.Base(f.Log), last)
}

// spoken is the error that a line of a stage's log carries, without the log's form; any other line is returned as it is.
func spoken(line string) string {
	_, value, ok := strings.Cut(line, " err=")
	if !ok {
		return line
	}
	if quoted, err := strconv.QuotedPrefix(value); err == nil {
		if text, err := strconv.Unquote(quoted); err == nil {
			return text
		}
	}
	word, _, _ := strings.Cut(value, " ")
	return word
}
