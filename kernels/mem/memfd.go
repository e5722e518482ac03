package mem

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newMemfd makes nameless memory of n bytes that is mapped here for writing, and that others, given the descriptor,
// can only ever map for reading and never resize: so nobody can pull it away under a reader.
func newMemfd(label string, n int) (fd int, b []byte, err error) {
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err = unix.MemfdCreate(label, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(label, flags)
	}
	if err != nil {
		return -1, nil, fmt.Errorf("memfd: %w", err)
	}
	if err = unix.Ftruncate(fd, int64(n)); err != nil {
		unix.Close(fd)
		return -1, nil, fmt.Errorf("memfd of %d bytes: %w", n, err)
	}
	// The first touch of a page costs twenty times a copy of it: all are touched now.
	if b, err = unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		unix.Close(fd)
		return -1, nil, fmt.Errorf("map %d bytes: %w", n, err)
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals|unix.F_SEAL_SEAL); err != nil {
		_ = unix.Munmap(b)
		unix.Close(fd)
		return -1, nil, fmt.Errorf("seal memfd (needs Linux 5.1): %w", err)
	}
	return fd, b, nil
}

const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE

// mapSealed maps a received descriptor for reading if it is memory of exactly n bytes that will stay so.
func mapSealed(fd, n int) ([]byte, error) {
	have, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || have&seals != seals {
		return nil, fmt.Errorf("%w: descriptor is not sealed memory (seals %#x, %v)", ErrForged, have, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("stat memory: %w", err)
	}
	if st.Size != int64(n) {
		return nil, fmt.Errorf("%w: memory of %d bytes, announced %d", ErrForged, st.Size, n)
	}
	b, err := unix.Mmap(fd, 0, n, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", n, err)
	}
	return b, nil
}

// float32s sees mapped memory, which is page-aligned, as float32.
func float32s(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
