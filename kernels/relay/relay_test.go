package relay

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// pipe is two devices whose queues are worked off in any order that what they await allows.
type pipe struct {
	src, dst []byte
	chunks   [Chunks][]byte
	queues   [2][]op
	done     [2]int         // operations of each queue
	marks    [2][Chunks]int // how much of its queue a side must have done; 0 for no mark
	fails    int            // the call that fails, counted from 1; 0 for none
	calls    int
	most     int // moves that were ready at once
}

type op struct {
	ready func() bool // of what awaits
	do    func()      // of a move
}

var errFails = errors.New("device lost")

func (p *pipe) call() error {
	if p.calls++; p.calls == p.fails {
		return errFails
	}
	return nil
}

func (p *pipe) Move(at Side, chunk int, offset, n int64) error {
	p.queues[at] = append(p.queues[at], op{do: func() {
		if at == Source {
			copy(p.chunks[chunk], p.src[offset:offset+n])
		} else {
			copy(p.dst[offset:offset+n], p.chunks[chunk])
		}
	}})
	return p.call()
}

func (p *pipe) Mark(at Side, chunk int) error {
	p.marks[at][chunk] = len(p.queues[at])
	return p.call()
}

func (p *pipe) Await(at Side, chunk int) error {
	other := 1 - at
	until := p.marks[other][chunk]
	p.queues[at] = append(p.queues[at], op{ready: func() bool { return p.done[other] >= until }})
	return p.call()
}

// run works everything off; pick chooses between the sides that can go on.
func (p *pipe) run(pick func(n int) int) (stuck bool) {
	for {
		var can []Side
		for _, s := range []Side{Source, Sink} {
			for p.done[s] < len(p.queues[s]) && p.queues[s][p.done[s]].do == nil && p.queues[s][p.done[s]].ready() {
				p.done[s]++ // it waits no longer
			}
		}
		for _, s := range []Side{Source, Sink} {
			if d := p.done[s]; d < len(p.queues[s]) && p.queues[s][d].do != nil {
				can = append(can, s)
			}
		}
		if p.most = max(p.most, len(can)); len(can) == 0 {
			return p.done[Source] < len(p.queues[Source]) || p.done[Sink] < len(p.queues[Sink])
		}
		s := can[pick(len(can))]
		p.queues[s][p.done[s]].do()
		p.done[s]++
	}
}

func newPipe(bytes, size int) *pipe {
	p := &pipe{src: make([]byte, bytes), dst: make([]byte, bytes)}
	for i := range p.src {
		p.src[i] = byte(i*7 + i/251)
	}
	for i := range p.chunks {
		p.chunks[i] = make([]byte, size)
	}
	return p
}

// Whatever the queues' order, all bytes arrive, also through copies that follow each other without a wait.
func TestCopyArrivesInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, size := rapid.IntRange(0, 300).Draw(t, "bytes"), rapid.IntRange(1, 64).Draw(t, "chunk")
		p := newPipe(n, size)
		for range rapid.IntRange(1, 3).Draw(t, "copies") {
			if err := Copy(p, int64(n), int64(size)); err != nil {
				t.Fatal(err)
			}
		}
		if p.run(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "side") }) {
			t.Fatal("both queues wait")
		}
		if !bytes.Equal(p.src, p.dst) {
			t.Fatalf("%v arrived as %v", p.src, p.dst)
		}
	})
}

// One chunk is filled while the other is emptied.
func TestBothSidesWorkAtOnce(t *testing.T) {
	p := newPipe(100, 10)
	if err := Copy(p, 100, 10); err != nil {
		t.Fatal(err)
	}
	if p.run(func(n int) int { return n - 1 }); p.most != 2 {
		t.Errorf("%d moves at once", p.most)
	}
}

func TestCopyEndsWithTheFirstFailure(t *testing.T) {
	for fails := 1; fails <= 6; fails++ {
		p := newPipe(100, 10)
		p.fails = fails
		if err := Copy(p, 100, 10); !errors.Is(err, errFails) || p.calls != fails {
			t.Errorf("failure in call %d: %v after %d calls", fails, err, p.calls)
		}
	}
}
