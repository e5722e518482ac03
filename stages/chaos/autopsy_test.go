package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// tracesEnd is how many lines of a log are shown of a process that had to tell what each of its goroutines was at.
const tracesEnd = 400

// autopsy says what a run that does not end is at: its processes and how they are, what the board and the ledger say, and,
// of each process, what it was told to say last: where each of its goroutines is. The stages do not survive that.
func (r *run) autopsy(supervisor *os.Process) string {
	var out strings.Builder
	_ = supervisor.Signal(syscall.SIGSTOP) // it would start again what ends here
	for name, pid := range r.pids() {
		fmt.Fprintf(&out, "%s is process %d, %s\n", name, pid, state(pid))
	}
	for _, command := range []string{"status", "ledger"} {
		said, err := r.penstock(command)
		fmt.Fprintf(&out, "--- penstock %s: %v\n%s\n", command, err, said)
	}
	for name, pid := range r.pids() {
		if name != "broker" {
			r.dump(pid)
		}
	}
	r.dump(r.pids()["broker"])
	out.WriteString(r.logs(tracesEnd))
	r.dump(supervisor.Pid) // in its output
	return out.String()
}

// dump has a process write where its goroutines are, frozen or not, and waits until it has ended of that.
func (r *run) dump(pid int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if r.owns(pid) {
		_ = syscall.Kill(pid, syscall.SIGQUIT)
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	_ = until(ctx, func() bool { return !r.owns(pid) })
}

// state is what the kernel says of a process.
func state(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "gone"
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "State:"); ok {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// owns reports whether a living process is the run's: an id may have gone to another one since it was written down.
func (r *run) owns(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && pid > 0 && bytes.Contains(b, []byte(r.dir))
}

// logs returns the last n lines of every log.
func (r *run) logs(n int) string {
	var out strings.Builder
	files, _ := filepath.Glob(filepath.Join(r.dir, "logs", "*.log"))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		fmt.Fprintf(&out, "--- %s\n%s\n", filepath.Base(f), strings.Join(lines[max(0, len(lines)-n):], "\n"))
	}
	return out.String()
}
