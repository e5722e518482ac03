package mem

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"penstock/kernels"
	"penstock/schema"
)

// ownerDir tells a re-executed test binary to own a slab in that directory.
const ownerDir = "PENSTOCK_MEM_OWNER"

// owners are what a re-executed test binary does, by the variable that names its directory.
var owners = map[string]func(dir string) int{ownerDir: own, probeDir: probe}

// own creates a slab, writes slot 1 and says so, then waits to be killed.
func own(dir string) int {
	slab, err := Create(spec(dir))
	if err == nil {
		slab.SetGeneration(1, 9)
		var x kernels.Tensor
		if x, err = slab.Tensor(1, 1, 1000); err == nil {
			for i := range x.F32 {
				x.F32[i] = float32(i)
			}
			err = json.NewEncoder(os.Stdout).Encode(slab.Info())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	select {}
}

func startOwner(t *testing.T, dir string) (schema.PoolInfo, func()) { return startAs(t, ownerDir, dir) }

// startAs runs this test binary as one of the owners. It returns what the owner announces and a way to kill it.
func startAs(t *testing.T, owner, dir string) (schema.PoolInfo, func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), owner+"="+dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	t.Cleanup(kill)
	var info schema.PoolInfo
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &info)
	}
	if err != nil {
		t.Fatal(err)
	}
	return info, kill
}

// TestOwnerIsKilled reads a slab while its owner is killed. The read ends well; then the memory is let go of, which the owner's
// successor waits for.
func TestOwnerIsKilled(t *testing.T) {
	dir := t.TempDir()
	info, kill := startOwner(t, dir)
	i := importer(t, dir)
	v := open(t, i, info)
	sum := func() (s float32) {
		err := v.Read(ref(info, 1, 9), 1, 1000, func(x kernels.Tensor) error {
			for _, f := range x.F32 {
				s += f
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if got := sum(); got != 999*1000/2 {
		t.Fatalf("sum %v", got)
	}
	second := spec(dir)
	second.Incarnation++
	if slab, err := Create(second); err == nil {
		slab.Close()
		t.Error("two owners of one pool")
	}
	var next *Slab
	made := make(chan error, 1)
	err := v.Read(ref(info, 1, 9), 1, 1000, func(x kernels.Tensor) error {
		kill()
		go func() {
			var err error
			next, err = Create(second) // takes over the dead owner's socket
			made <- err
		}()
		select {
		case err := <-made:
			t.Errorf("the successor allocated while a view was read: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		if x.F32[999] != 999 {
			t.Errorf("the last element is %v after the owner's death", x.F32[999])
		}
		return nil
	})
	if err != nil {
		t.Errorf("the read during which the owner died: %v", err)
	}
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := v.Read(ref(info, 1, 9), 1, 1000, func(kernels.Tensor) error { return nil }); !errors.Is(err, ErrStale) {
		t.Errorf("read after the owner's death: %v, want ErrStale", err)
	}
	if _, err := i.Open(t.Context(), info); !errors.Is(err, ErrStale) {
		t.Errorf("the dead incarnation by its successor's socket: %v, want ErrStale", err)
	}
	open(t, i, next.Info())
}

// TestOwnerIsKilledWhileItsMemoryIsMapped: that is no failure of whoever maps it.
func TestOwnerIsKilledWhileItsMemoryIsMapped(t *testing.T) {
	dir := t.TempDir()
	info, kill := startOwner(t, dir)
	info.Memory = "dying"
	kinds[info.Memory] = kind{1, nil, func(schema.PoolInfo, geometry, []int, int) (memory, error) {
		kill()
		return nil, errors.New("invalid handle")
	}}
	defer delete(kinds, info.Memory)
	if _, err := importer(t, dir).Open(t.Context(), info); !errors.Is(err, ErrStale) {
		t.Errorf("got %v, want ErrStale", err)
	}
}

// TestImporterCannotHurt tries what an importer may not do with the descriptors that it is given.
func TestImporterCannotHurt(t *testing.T) {
	dir := t.TempDir()
	info, _ := startOwner(t, dir)
	conn, fds, err := receive(t.Context(), dir, info.Socket, info.Incarnation, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	defer closeAll(fds)
	for i, fd := range fds {
		if b, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
			t.Errorf("descriptor %d: mapped for writing", i)
			_ = unix.Munmap(b)
		}
		if _, err := unix.Pwrite(fd, []byte{1}, 0); err == nil {
			t.Errorf("descriptor %d: written", i)
		}
		if err := unix.Ftruncate(fd, 0); err == nil {
			t.Errorf("descriptor %d: shrunk", i)
		}
		if err := unix.Ftruncate(fd, 1<<30); err == nil {
			t.Errorf("descriptor %d: grown", i)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err == nil {
			t.Errorf("descriptor %d: sealed further", i)
		}
	}
}
