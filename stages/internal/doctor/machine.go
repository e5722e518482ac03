package doctor

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"penstock/kernels/gemm"
	"penstock/schema"
	"penstock/stages/internal/backend"
)

// wantFree is the disk space below which a run is likely to end in a failed write.
const wantFree = 1 << 30

// Machine checks what the host offers to a run whose directory is under root.
func Machine(cfg schema.Config, root string) Checks {
	var c Checks
	c.good("processor", "%d cores, %s", runtime.NumCPU(), runtime.GOARCH)
	switch paths := gemm.Paths(); paths[0] {
	case "avx512", "avx2":
		c.good("matrix product", "%s (available: %s)", paths[0], strings.Join(paths, ", "))
	default:
		c.good("matrix product", "%s: this processor has neither AVX-512 nor AVX2, expect a tenth of the speed", paths[0])
	}
	if err := tryMemfd(); err != nil {
		c.bad("shared memory", "%v", err)
	} else {
		c.good("shared memory", "memfd with seals")
	}
	checkSpace(&c, root)
	checkFiles(&c)
	checkListen(&c, cfg)
	for _, w := range cfg.Warnings() {
		c.good("warning", "%s", w)
	}
	return c
}

// Device opens the device that the configuration names, or each of several GPUs, and ends it again.
func Device(cfg schema.Config) Checks {
	var c Checks
	for _, name := range devices(cfg.Device) {
		if what, err := backend.Probe(name); err != nil {
			c.bad("device", "%v", err)
		} else {
			c.good("device", "%s", what)
		}
	}
	return c
}

// devices are the names of the devices that a name is of.
func devices(name string) []string {
	g, ok := schema.ParseGPUs(name)
	if !ok || g.N == 1 {
		return []string{name}
	}
	var names []string
	for k := range g.N {
		names = append(names, g.Name(k))
	}
	return names
}

// tryMemfd makes, sizes and seals a small anonymous file, as slabs are.
func tryMemfd() error {
	fd, err := unix.MemfdCreate("penstock-doctor", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return fmt.Errorf("memfd_create: %w: slabs need Linux 3.17 or later", err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, 4096); err != nil {
		return fmt.Errorf("size a memfd: %w", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		return fmt.Errorf("seal a memfd: %w", err)
	}
	return nil
}

// checkSpace looks at the file system that will hold root, which need not exist yet.
func checkSpace(c *Checks, root string) {
	path := root
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		path = "."
	}
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		c.bad("disk", "%s: %v", path, err)
		return
	}
	free := int64(st.Bavail) * st.Bsize
	if free < wantFree {
		c.bad("disk", "%s has %s free, a run wants %s: free some, or name another place with --run", path, Bytes(free), Bytes(wantFree))
		return
	}
	c.good("disk", "%s free", Bytes(free))
}

func checkFiles(c *Checks) {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		c.bad("open files", "%v", err)
		return
	}
	if lim.Max < 1024 {
		c.bad("open files", "at most %d: raise the limit (ulimit -n) to 1024 or more", lim.Max)
		return
	}
	c.good("open files", "at most %d", lim.Max)
}
