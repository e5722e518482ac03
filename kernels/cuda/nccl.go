//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// nccl is the library that adds up over GPUs, of version 2.14 at least: from there on nothing in it need block.
type nccl struct {
	version    int32
	uniqueID   uintptr
	allReduce  uintptr
	abort      uintptr
	asyncError uintptr
	text       uintptr
	initRank   func(comm *uintptr, ranks int32, id uniqueID, rank int32, c *commConfig) int32
}

// uniqueID is ncclUniqueId, 128 bytes that are passed by value.
type uniqueID struct{ words [16]uint64 }

const uniqueIDBytes = int(unsafe.Sizeof(uniqueID{}))

// commConfig is ncclConfig_t of 2.14, which later versions take as it was.
type commConfig struct {
	size           uint64
	magic, version uint32
	blocking       int32
	_              int32
}

const (
	configMagic   = 0xcafebeef
	configVersion = 21400
)

// States of a call or a communicator; the others are failures.
const (
	ncclSuccess    = 0
	ncclInProgress = 7
)

// ncclDir is the environment variable that names the directory of libnccl.so.2, to be looked into first.
const ncclDir = "PENSTOCK_NCCL"

// theNCCL is the library as this process has it.
var theNCCL = sync.OnceValues(loadNCCL)

// NCCL returns the version of the library, or says why it is not there.
func NCCL() (string, error) {
	n, err := theNCCL()
	if err != nil {
		return "", err
	}
	return n.String(), nil
}

func (n *nccl) String() string {
	return fmt.Sprintf("NCCL %d.%d.%d", n.version/10000, n.version/100%100, n.version%100)
}

func loadNCCL() (*nccl, error) {
	// Read once, by the first call. Multicast is memory of the whole machine's switch: ranks of one machine do without.
	// They meet on the loopback interface, where nobody else can.
	err := os.Setenv("NCCL_NVLS_ENABLE", "0")
	if os.Getenv("NCCL_SOCKET_IFNAME") == "" {
		err = errors.Join(err, os.Setenv("NCCL_SOCKET_IFNAME", "lo"))
	}
	if err != nil {
		return nil, fmt.Errorf("NCCL: %w", err)
	}
	lib, err := openNCCL()
	if err != nil {
		return nil, err
	}
	n := &nccl{}
	var version, initRank uintptr
	for name, f := range map[string]*uintptr{
		"ncclGetVersion": &version, "ncclGetUniqueId": &n.uniqueID, "ncclCommInitRankConfig": &initRank, "ncclAllReduce": &n.allReduce,
		"ncclCommAbort": &n.abort, "ncclCommGetAsyncError": &n.asyncError, "ncclGetErrorString": &n.text,
	} {
		if *f, err = purego.Dlsym(lib, name); err != nil {
			return nil, fmt.Errorf("NCCL (2.14 at least): %w", err)
		}
	}
	purego.RegisterFunc(&n.initRank, initRank)
	return n, n.call("ncclGetVersion", version, uintptr(unsafe.Pointer(&n.version)))
}

func openNCCL() (uintptr, error) {
	const name = "libnccl.so.2"
	dirs := []string{"", "/usr/local/cuda/lib64"}
	if dir := os.Getenv(ncclDir); dir != "" {
		dirs = append([]string{dir}, dirs...)
	}
	lib, err := openLibrary(dirs, []string{name})
	if err != nil {
		err = fmt.Errorf("NCCL is not there: install it, or set %s to the directory of %s: %w", ncclDir, name, err)
	}
	return lib, err
}

// call makes a call. Arguments may be addresses of Go memory.
//
//go:uintptrescapes
func (n *nccl) call(name string, f uintptr, args ...uintptr) error {
	r, _, _ := purego.SyscallN(f, args...)
	return n.failure(name, int32(r))
}

// failure is the error of a call's result, nil for one that is still in progress.
func (n *nccl) failure(name string, result int32) error {
	if result == ncclSuccess || result == ncclInProgress {
		return nil
	}
	text, _, _ := purego.SyscallN(n.text, uintptr(result))
	return fmt.Errorf("%s: %s (result %d; NCCL_DEBUG=WARN tells more)", name, cString(text), result)
}
