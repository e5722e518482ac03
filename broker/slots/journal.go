package slots

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A journal file is blocks of blockSize bytes, the first for the header, then one per slot. A block is a length, a
// checksum over what follows, and that many bytes of JSON; length 0 is a free slot.
const (
	blockSize = 1024
	blockHead = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrJournal: the file is not a whole journal.
var ErrJournal = errors.New("not a slot journal")

type header struct {
	Version     int    `json:"slot_journal"`
	Pool        string `json:"pool"`
	Incarnation uint64 `json:"inc"`
	Slots       int    `json:"slots"`
}

// Journal keeps the uses of a pool in a mapped file. Writing it costs no system call; what was written is there after
// the owner was killed, though not after a power failure, when the server's redelivery after AckWait takes over.
type Journal struct {
	slots int
	mem   []byte
}

// CreateJournal makes an empty journal at path. An earlier one, of an owner that is dead, is replaced: whoever needs
// it reads it first.
func CreateJournal(path, pool string, incarnation uint64, n int) (*Journal, error) {
	head, err := json.Marshal(header{Version: 1, Pool: pool, Incarnation: incarnation, Slots: n})
	if err != nil {
		return nil, fmt.Errorf("slot journal %s: %w", path, err)
	}
	if n < 1 || len(head) > blockSize-blockHead {
		return nil, fmt.Errorf("slot journal %s: %d slots, pool name of %d bytes", path, n, len(pool))
	}
	content := make([]byte, blockSize*(1+n)) // written in full: a hole could fail on a full disk later
	seal(content, head)
	tmp := path + ".new"
	if err := os.WriteFile(tmp, content, 0o600); err != nil {
		return nil, fmt.Errorf("slot journal: %w", err)
	}
	j := &Journal{slots: n}
	if j.mem, err = mapFile(tmp, len(content)); err != nil {
		return nil, fmt.Errorf("slot journal %s: %w", path, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return nil, errors.Join(fmt.Errorf("slot journal: %w", err), j.Close())
	}
	return j, nil
}

func mapFile(path string, size int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// Close unmaps the file and leaves it. The pool must not be used any more.
func (j *Journal) Close() error {
	if j.mem == nil {
		return nil
	}
	mem := j.mem
	j.mem = nil
	return unix.Munmap(mem)
}

func (j *Journal) put(u Use) {
	if j == nil {
		return
	}
	body, err := json.Marshal(u)
	if err != nil || len(body) > blockSize-blockHead {
		return // an acknowledge subject of half a kilobyte is nobody's: AckWait is the backstop
	}
	seal(j.block(u.Slot), body)
}

func (j *Journal) clear(slot uint32) {
	if j != nil {
		setLength(j.block(slot), 0)
	}
}

func (j *Journal) block(slot uint32) []byte {
	return j.mem[blockSize*(1+int(slot)):][:blockSize]
}

// seal writes the length last: a writer that dies before leaves a free block, or one whose checksum is wrong.
func seal(block, body []byte) {
	setLength(block, 0)
	copy(block[blockHead:], body)
	binary.LittleEndian.PutUint32(block[4:], crc32.Checksum(body, castagnoli))
	setLength(block, uint32(len(body)))
}

func setLength(block []byte, n uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&block[0])), n)
}

// Journaled is what a journal says.
type Journaled struct {
	Pool        string
	Incarnation uint64
	Uses        []Use // by slot
}

// ReadJournal reads the journal at path, of an owner dead or alive. A block that was being written is left out. A
// file that is no journal, or a torn one, gives [ErrJournal].
func ReadJournal(path string) (Journaled, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Journaled{}, fmt.Errorf("slot journal: %w", err)
	}
	var h header
	if len(b) < blockSize || !unseal(b[:blockSize], &h) || h.Version != 1 || h.Slots < 1 || len(b)/blockSize != 1+h.Slots || len(b)%blockSize != 0 {
		return Journaled{}, fmt.Errorf("%s: %w", path, ErrJournal)
	}
	j := Journaled{Pool: h.Pool, Incarnation: h.Incarnation}
	for s := range h.Slots {
		var u Use
		if unseal(b[blockSize*(1+s):][:blockSize], &u) && u.Slot == uint32(s) {
			j.Uses = append(j.Uses, u)
		}
	}
	return j, nil
}

func unseal(block []byte, to any) bool {
	n := binary.NativeEndian.Uint32(block)
	if n == 0 || n > blockSize-blockHead {
		return false
	}
	body := block[blockHead:][:n]
	return crc32.Checksum(body, castagnoli) == binary.LittleEndian.Uint32(block[4:]) && json.Unmarshal(body, to) == nil
}
