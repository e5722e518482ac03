package safetensors

import (
	"context"
	"fmt"
	"hash"
	"runtime"

	"golang.org/x/sync/errgroup"
)

const (
	chunk = 1 << 21 // values that are on their way together: 8 MB, much beside what a call of a device costs, little beside the memory
	spare = 2       // chunks of a file beside those that its writers hold
	most  = 4       // writers of a file that is not hashed
)

// Source copies a tensor's values to dst, row-major, those from element at on.
type Source func(dst []float32, name string, at int) error

// Filling is a file with what its tensors come from. They are of F32 or BF16, and none is written yet.
type Filling struct {
	*Writer
	From Source
	Sum  hash.Hash // sees all of the file's bytes, unless it is nil
}

// Fill writes all tensors of the files, side by side. The caller's goroutine alone calls the sources, in each file's own
// order. Of a file no more than six chunks of 8 MB are in memory. The first failure ends it, and no goroutine is left. What
// becomes of the files is the caller's.
func Fill(files ...Filling) error {
	var lanes []*lane
	for _, f := range files {
		l, err := newLane(f)
		if err != nil {
			return err
		}
		lanes = append(lanes, l)
	}
	writers, ctx := errgroup.WithContext(context.Background())
	for _, l := range lanes {
		for range cap(l.full) - spare {
			writers.Go(l.write)
		}
	}
	err := feed(ctx, lanes)
	for _, l := range lanes {
		close(l.full)
	}
	if failed := writers.Wait(); err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	for _, l := range lanes {
		for i := range l.written {
			l.written[i] = true
		}
	}
	return nil
}

// lane is a file being filled: chunks go to its writers full and come back free.
type lane struct {
	Filling
	next, at int // the tensor to read, and from which element on
	full     chan part
	free     chan []float32
}

// part is the values of a tensor from element at on.
type part struct {
	entry
	at     int
	values []float32
}

func newLane(f Filling) (*lane, error) {
	longest := 0
	for _, e := range f.entries {
		if _, err := f.claim(e.name); err != nil {
			return nil, err
		}
		if err := f.checkFloats(e); err != nil {
			return nil, err
		}
		longest = max(longest, e.values())
	}
	n := min(most, runtime.GOMAXPROCS(0)) + spare
	if f.Sum != nil {
		n = 1 + spare // a hash sees the chunks in order
		f.Sum.Write(f.head)
	}
	l := &lane{Filling: f, full: make(chan part, n), free: make(chan []float32, n)}
	for range n {
		l.free <- make([]float32, min(chunk, longest))
	}
	return l, nil
}

// feed reads a chunk for each file in turn until all is read, a source fails or ctx ends, which is no error of its own.
func feed(ctx context.Context, lanes []*lane) error {
	for left := true; left; {
		left = false
		for _, l := range lanes {
			e, n := l.upcoming()
			if n == 0 {
				continue
			}
			left = true
			p := part{entry: e, at: l.at}
			select {
			case buf := <-l.free:
				p.values = buf[:n]
			case <-ctx.Done():
				return nil
			}
			if err := l.From(p.values, p.name, p.at); err != nil {
				return fmt.Errorf("tensor %q: %w", p.name, err)
			}
			l.at += n
			l.full <- p // has room for all that there are
		}
	}
	return nil
}

// upcoming returns the tensor that is to be read from l.at on, and how many values of it; 0 at the file's end.
func (l *lane) upcoming() (entry, int) {
	for ; l.next < len(l.entries); l.next, l.at = l.next+1, 0 {
		if e := l.entries[l.next]; l.at < e.values() {
			return e, min(chunk, e.values()-l.at)
		}
	}
	return entry{}, 0
}

// write writes chunks until there are no more.
func (l *lane) write() error {
	var c encoder
	for p := range l.full {
		if err := l.hashed(p, c.encode(p.values, p.dtype)); err != nil {
			return err
		}
		l.free <- p.values[:cap(p.values)]
	}
	return nil
}

// hashed writes a chunk, and hashes it meanwhile.
func (l *lane) hashed(p part, b []byte) error {
	if l.Sum == nil {
		return l.put(p.entry, p.at, b)
	}
	written := make(chan error, 1)
	go func() { written <- l.put(p.entry, p.at, b) }()
	l.Sum.Write(b)
	return <-written
}
