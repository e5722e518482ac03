package chaos

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"penstock/schema"
	"penstock/stages/stagestest"
)

// mount puts a file system of a size in memory on a folder. It reports false where this process may not do that.
func mount(t *testing.T, dir, size string) bool {
	t.Helper()
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
	}
	if errors.Is(err, unix.EPERM) {
		return false
	}
	if err != nil {
		t.Fatalf("mount on %s: %v", dir, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // the test may have done so
	return true
}

// fill takes what is left of a folder's file system, and returns the file that has it.
func fill(t *testing.T, dir string) (ballast string) {
	t.Helper()
	ballast = filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<16); len(block) > 0 && err == nil; {
		if _, err = f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block, err = block[:len(block)/2], nil
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return ballast
}

// limitFiles lets a process write no file beyond so many bytes from now on, or any if that is unix.RLIM_INFINITY.
func limitFiles(t *testing.T, pid int, most uint64) {
	t.Helper()
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: unix.RLIM_INFINITY}, nil); err != nil {
		t.Fatal(err)
	}
}

// warned reports whether an instance's log has a line.
func (r *run) warned(instance, line string) bool {
	b, err := os.ReadFile(filepath.Join(r.dir, "logs", instance+".log"))
	return err == nil && strings.Contains(string(b), line)
}

// The ways in which the kernel refuses to write a run's checkpoints, until what is returned is called. The first needs the
// right to mount; the second anybody may do.

func fullDisk(r *run) (again func()) {
	place := filepath.Join(r.dir, "checkpoints")
	if !mount(r.t, place, "16k") {
		r.t.Log("this process may not mount: the trainer's files are limited instead")
		return limitedFiles(r)
	}
	return func() {
		if err := unix.Unmount(place, unix.MNT_DETACH); err != nil {
			r.t.Fatal(err)
		}
	}
}

func limitedFiles(r *run) (again func()) {
	pid := r.pids()["draft-1"]
	limitFiles(r.t, pid, 4096)
	return func() { limitFiles(r.t, pid, unix.RLIM_INFINITY) }
}

// TestFullDiskUnderCheckpoints has the kernel refuse to write checkpoints in the middle of a run: it goes on from memory and
// ends well if it can save again, and badly if it never can.
func TestFullDiskUnderCheckpoints(t *testing.T) {
	bin := bins(t)
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	c := stagestest.Config(t, 60, func(c *schema.Config) {
		c.Deterministic = true
		c.Broker.AckWait = ackWait.String()
		c.Save = schema.SaveConfig{Every: 1, Keep: 2}
	})
	calm := newRun(t, bin, c)
	calm.up(ctx).well()
	for _, f := range []struct {
		name   string
		refuse func(*run) func()
		again  bool
	}{{"full", fullDisk, true}, {"full to the end", fullDisk, false}, {"limited", limitedFiles, true}} {
		t.Run(f.name, func(t *testing.T) {
			r := newRun(t, bin, c)
			u := r.up(ctx)
			u.must(ctx, 3)
			again := f.refuse(r)
			warned := func() bool {
				return r.warned("draft-1", "checkpoint cannot be written: the run goes on from memory") || u.ended()
			}
			if err := until(ctx, warned); err != nil {
				t.Fatalf("nobody warns: %v\n%s", err, r.logs(12))
			}
			if !f.again {
				<-u.done
				if said := u.out.String(); u.err == nil || !strings.Contains(said, "the run is complete and cannot be saved") {
					t.Errorf("up: %v\n%s", u.err, said)
				}
				return
			}
			again()
			u.well()
			if !r.warned("draft-1", "checkpoints can be written again") {
				t.Errorf("nobody says that checkpoints are written again\n%s", r.logs(12))
			}
			r.as(calm)
		})
	}
}

// as holds a run's ledger and weights against those of an undisturbed one.
func (r *run) as(calm *run) {
	r.t.Helper()
	if l := r.ledger(); l["missing"] != 0 || l["duplicates"] != 0 || l["mismatched"] != 0 || l["windows"] != l["planned"] {
		r.t.Errorf("ledger: %v", l)
	}
	if !bytes.Equal(calm.weights(), r.weights()) {
		r.t.Error("other weights than undisturbed")
	}
}

// TestFullDisk fills the disk that all of a run's files are on, the broker's store too, and makes room again after a while.
// Whether the run lives through it, or ends badly, says why and is started again: nothing is lost.
func TestFullDisk(t *testing.T) {
	bin := bins(t)
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	c := stagestest.Config(t, 60, func(c *schema.Config) {
		c.Deterministic = true
		c.Broker.AckWait = ackWait.String()
		c.Save = schema.SaveConfig{Every: 2, Keep: 2}
	})
	calm := newRun(t, bin, c)
	calm.up(ctx).well()
	r := newRun(t, bin, c)
	disk, reason := filepath.Join(t.TempDir(), "disk"), "no space left on device"
	mounted := mount(t, disk, "64m")
	if mounted {
		r.dir = filepath.Join(disk, "run")
	}
	u := r.up(ctx)
	u.must(ctx, 4)
	again := func() {}
	if mounted {
		ballast := fill(t, disk)
		again = func() {
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
		}
	} else {
		t.Log("this process may not mount: the broker's files are limited instead")
		reason = "file too large"
		limitFiles(t, r.pids()["broker"], 1)
	}
	full, over := context.WithTimeout(ctx, fullFor)
	defer over()
	_ = until(full, u.ended)
	again()
	<-u.done
	t.Logf("up: %v\n%s", u.err, &u.out)
	if said := u.out.String(); u.err != nil && !strings.Contains(said, reason) {
		t.Errorf("up ends badly and does not say that the disk is full\n%s\n%s", said, r.logs(12))
	}
	if u.err != nil {
		r.up(ctx).well()
	}
	r.as(calm)
}

// fullFor is how long a disk is full.
const fullFor = 3 * time.Second
