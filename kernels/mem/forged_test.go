package mem

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"penstock/kernels"
	"penstock/schema"
)

func TestForgedAnnouncement(t *testing.T) {
	dir := t.TempDir()
	info := create(t, spec(dir)).Info()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*schema.PoolInfo)
		want   error // nil: any
	}{
		"incarnation":  {func(i *schema.PoolInfo) { i.Incarnation++ }, ErrStale},
		"fewer slots":  {func(i *schema.PoolInfo) { i.Slots-- }, ErrForged},
		"element":      {func(i *schema.PoolInfo) { i.Element = "bfloat16" }, ErrForged},
		"no element":   {func(i *schema.PoolInfo) { i.Element = "" }, ErrForged},
		"more slots":   {func(i *schema.PoolInfo) { i.Slots = 1 << 15 }, ErrForged},
		"no slots":     {func(i *schema.PoolInfo) { i.Slots = 0 }, ErrForged},
		"huge slots":   {func(i *schema.PoolInfo) { i.Slots = 1<<32 - 1 }, ErrForged},
		"larger slots": {func(i *schema.PoolInfo) { i.SlotBytes *= 2 }, ErrForged},
		"odd slots":    {func(i *schema.PoolInfo) { i.SlotBytes-- }, ErrForged},
		"huge size":    {func(i *schema.PoolInfo) { i.SlotBytes = 1<<64 - 1 }, ErrForged},
		"overflow":     {func(i *schema.PoolInfo) { i.Slots, i.SlotBytes = 1<<16, 1<<43 }, ErrForged},
		"no socket":    {func(i *schema.PoolInfo) { i.Socket = "" }, ErrForged},
		"other socket": {func(i *schema.PoolInfo) { i.Socket = "none.sock" }, ErrStale},
		"a file":       {func(i *schema.PoolInfo) { i.Socket = "file" }, ErrStale},
		"parent":       {func(i *schema.PoolInfo) { i.Socket = "../" + i.Socket }, ErrForged},
		"absolute":     {func(i *schema.PoolInfo) { i.Socket = filepath.Join(dir, i.Socket) }, ErrForged},
		"long":         {func(i *schema.PoolInfo) { i.Socket = strings.Repeat("x", 200) }, ErrForged},
		"kind":         {func(i *schema.PoolInfo) { i.Memory = "" }, nil},
	} {
		forged := info
		c.change(&forged)
		i := importer(t, dir)
		if _, err := i.Open(t.Context(), forged); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		open(t, i, info) // no harm done
	}
}

// TestForgedOwner answers an importer with everything but a slab.
func TestForgedOwner(t *testing.T) {
	good := func(info schema.PoolInfo) []byte {
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, controlMagic), info.Incarnation)
	}
	ctlSize, size := controlBytes(3), 3*8192
	unsealed := func(n int) int {
		fd, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err == nil {
			err = unix.Ftruncate(fd, int64(n))
		}
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	sealed := func(n int, fill func(control)) int {
		fd, b, err := newMemfd("x", n)
		if err != nil {
			t.Fatal(err)
		}
		if fill != nil {
			fill(b)
		}
		if err := unix.Munmap(b); err != nil {
			t.Fatal(err)
		}
		return fd
	}
	format := func(c control) { c.format(77, geometry{3, 8192, kernels.Float32}) }
	other := func(c control) { c.format(78, geometry{3, 8192, kernels.Float32}) }
	null := func() int {
		fd, err := unix.Open("/dev/zero", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	for name, c := range map[string]struct {
		hello func(schema.PoolInfo) []byte
		fds   []int
	}{
		"says nothing":       {func(schema.PoolInfo) []byte { return nil }, nil},
		"says little":        {func(schema.PoolInfo) []byte { return []byte("hello") }, []int{sealed(ctlSize, format), sealed(size, nil)}},
		"says rubbish":       {func(schema.PoolInfo) []byte { return []byte("0123456789abcdef") }, []int{sealed(ctlSize, format), sealed(size, nil)}},
		"says too much":      {func(i schema.PoolInfo) []byte { return append(good(i), 0) }, []int{sealed(ctlSize, format), sealed(size, nil)}},
		"no descriptors":     {good, nil},
		"one descriptor":     {good, []int{sealed(ctlSize, format)}},
		"five descriptors":   {good, []int{null(), null(), null(), null(), null()}},
		"devices":            {good, []int{null(), null()}},
		"unsealed":           {good, []int{unsealed(ctlSize), unsealed(size)}},
		"unsealed slots":     {good, []int{sealed(ctlSize, format), unsealed(size)}},
		"short control":      {good, []int{sealed(ctlSize/2, nil), sealed(size, nil)}},
		"short slots":        {good, []int{sealed(ctlSize, format), sealed(size/2, nil)}},
		"long slots":         {good, []int{sealed(ctlSize, format), sealed(2*size, nil)}},
		"empty control":      {good, []int{sealed(ctlSize, nil), sealed(size, nil)}},
		"somebody's control": {good, []int{sealed(ctlSize, other), sealed(size, nil)}},
		"swapped":            {good, []int{sealed(size, nil), sealed(ctlSize, format)}},
	} {
		dir := t.TempDir()
		info := schema.PoolInfo{Pool: "p", Incarnation: 77, Memory: "shm", Device: -1, Slots: 3, SlotBytes: 8192, Element: "float32", Socket: "p.sock"}
		stop := answer(t, filepath.Join(dir, "p.sock"), c.hello(info), c.fds)
		before := descriptors(t)
		v, err := NewImporter(dir).Open(t.Context(), info)
		want := ErrForged
		if c.hello(info) == nil { // as one does that ends
			want = ErrStale
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v, %v; want %v", name, v, err, want)
		}
		stop()
		if after := descriptors(t); after > before {
			t.Errorf("%s: %d descriptors, %d before", name, after, before)
		}
		closeAll(c.fds)
	}
}

// answer serves one importer.
func answer(t *testing.T, path string, hello []byte, fds []int) (stop func()) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.AcceptUnix()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if len(hello) > 0 {
			if _, _, err := c.WriteMsgUnix(hello, unix.UnixRights(fds...), nil); err != nil {
				t.Error(err)
			}
		}
	}()
	return func() { <-done; l.Close() }
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestOpenEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "p.sock")) // takes no connection
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	info := schema.PoolInfo{Pool: "p", Incarnation: 77, Memory: "shm", Slots: 3, SlotBytes: 8192, Element: "float32", Socket: "p.sock"}
	start := time.Now()
	if _, err := NewImporter(dir).Open(ctx, info); err == nil || time.Since(start) > passDeadline/2 {
		t.Errorf("got %v after %v", err, time.Since(start))
	}
}

func TestSocket(t *testing.T) {
	deep := t.TempDir() // longer than a socket address
	for range 5 {
		deep = filepath.Join(deep, strings.Repeat("deep", 10))
	}
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	old := unix.Umask(0)
	s := spec(deep)
	s.Pool = strings.Repeat("p", 64)
	slab := create(t, s)
	unix.Umask(old)
	st, err := os.Stat(filepath.Join(deep, slab.Info().Socket))
	if err != nil || st.Mode() != os.ModeSocket|0o600 {
		t.Errorf("socket mode %v, %v; want 0600", st.Mode(), err)
	}
	open(t, importer(t, deep), slab.Info())
}

func TestSameUser(t *testing.T) {
	if err := sameUser(1000, 1000); err != nil {
		t.Error(err)
	}
	if err := sameUser(1001, 1000); !errors.Is(err, ErrForged) {
		t.Errorf("another user: %v", err)
	}
}
