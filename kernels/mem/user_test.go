package mem

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// probeDir tells a re-executed test binary to reach for a slab of another process as the user that it is.
const probeDir = "PENSTOCK_MEM_PROBE"

const nobody = 65534

// probed is what a process got hold of.
type probed struct {
	Pid     int
	Socket  string
	Connect string // error, empty for none
	Opened  []string
}

// probe connects to the socket and opens every descriptor of the owner that wants.json names.
func probe(dir string) int {
	var p probed
	b, err := os.ReadFile(filepath.Join(dir, "wants.json"))
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if c, err := net.Dial("unix", p.Socket); err != nil {
		p.Connect = err.Error()
	} else {
		c.Close()
	}
	for fd := range 256 {
		path := fmt.Sprintf("/proc/%d/fd/%d", p.Pid, fd)
		if f, err := os.Open(path); err == nil {
			p.Opened = append(p.Opened, path)
			f.Close()
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(p); err != nil {
		return 1
	}
	return 0
}

// TestOtherUsersGetNothing has another user reach for a slab in a directory that everybody may enter: by its socket, and by the
// descriptors of its owner. Who is not root cannot become another user; then the same user must get through, which shows
// that the probe can.
func TestOtherUsersGetNothing(t *testing.T) {
	dir, err := os.MkdirTemp("", "penstock-mem-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	slab := create(t, spec(dir))
	want := probed{Pid: os.Getpid(), Socket: filepath.Join(dir, slab.Info().Socket)}
	exe := filepath.Join(dir, "probe") // where other users may run it
	b, err := json.Marshal(want)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "wants.json"), b, 0o644)
	}
	if err == nil {
		err = copyExecutable(exe)
	}
	if err != nil {
		t.Fatal(err)
	}
	try := func(user *syscall.Credential) (got probed) {
		t.Helper()
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), probeDir+"="+dir)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(out, &got)
		}
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if own := try(nil); own.Connect != "" || len(own.Opened) == 0 {
		t.Fatalf("the owner's own user gets %+v", own)
	}
	if os.Geteuid() != 0 {
		t.Log("not root: another user was not tried")
		return
	}
	other := try(&syscall.Credential{Uid: nobody, Gid: nobody})
	if other.Connect == "" || len(other.Opened) > 0 {
		t.Errorf("another user gets %+v", other)
	}
}

func copyExecutable(to string) error {
	from, err := os.Executable()
	if err != nil {
		return err
	}
	b, err := os.ReadFile(from)
	return errors.Join(err, os.WriteFile(to, b, 0o755))
}
