package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// errFull ends the broker when its disk is full: the server does not write to a stream again on which a write has failed,
// also when there is room, before it has started anew.
var errFull = errors.New("the disk of the broker's store is full: make room")

// full is how the kernel says so.
var full = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}

// untilFull returns a context that ends with errFull when take is given a line of the server's log that says so.
func untilFull(ctx context.Context) (until context.Context, take func(line string)) {
	until, end := context.WithCancelCause(ctx)
	return until, func(line string) {
		for _, reason := range full {
			if strings.Contains(line, reason.Error()) {
				end(fmt.Errorf("%w: %w", errFull, reason))
			}
		}
	}
}

const (
	roomFor   = 1 << 20         // bytes that a start needs
	roomWait  = 5 * time.Second // less than a broker may be silent
	roomEvery = 50 * time.Millisecond
)

// awaitRoom waits until there is room in a folder, but not for long: whoever supervises the broker starts it again a few times.
func awaitRoom(ctx context.Context, dir string) {
	ctx, cancel := context.WithTimeout(ctx, roomWait)
	defer cancel()
	look := time.NewTicker(roomEvery)
	defer look.Stop()
	for room(dir) != nil {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// room tries whether a folder's disk takes some more.
func room(dir string) error {
	f, err := os.CreateTemp(dir, "room-")
	if err != nil {
		return fmt.Errorf("look for room: %w", err)
	}
	_, err = f.Write(make([]byte, roomFor))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}
