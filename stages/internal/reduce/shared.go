package reduce

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"penstock/broker/policy"
	"penstock/kernels"
	"penstock/kernels/mem"
	"penstock/schema"
)

// stateSlots follow the parts in a slab: weights and the two moments, for a rank that joins.
const stateSlots = 3

// How often a part of another member is looked at: its owner computes, so nobody tells. A member that is not there is
// about to be put out of the group.
const (
	minPoll  = 50 * time.Microsecond
	maxPoll  = 2 * time.Millisecond
	lostPoll = 20 * time.Millisecond
)

// Find returns how to open a member's slab, as the member announced it; mem.ErrStale if it did not.
type Find func(ctx context.Context, m policy.Member) (schema.PoolInfo, error)

// Shared is a group over slabs of shared memory: each member owns one, with its parts in it, and maps those of the others.
// A GPU does not work there: it has its parts in its own memory and copies them when they are brought.
type Shared struct {
	*alone
	inbox    kernels.Tensor // through which others' parts get onto a GPU; nil on the host
	self     policy.Member
	elements int
	slab     *mem.Slab
	views    *mem.Importer
	find     Find
	known    map[policy.Member]schema.PoolInfo
}

// Share allocates and exports a member's slab. dev works in the slab's memory.
func Share(dev kernels.Device, self policy.Member, runDir string, parts, elements int, find Find) (*Shared, error) {
	slab, err := mem.Create(mem.Spec{Kind: "shm", Pool: self.Rank, Incarnation: self.Incarnation, Slots: parts + stateSlots,
		SlotBytes: 4 * (elements + noteFloats), RunDir: runDir})
	if err != nil {
		return nil, err
	}
	s := &Shared{self: self, elements: elements, slab: slab, views: mem.NewImporter(runDir), find: find, known: map[policy.Member]schema.PoolInfo{}}
	if dev.Alloc(1, 1).F32 == nil {
		s.inbox = dev.Alloc(1, elements)
	}
	s.alone = newAlone(dev, parts, func(i int) kernels.Tensor {
		if !s.inbox.IsNil() {
			return dev.Alloc(1, elements)
		}
		t, terr := slab.Tensor(uint32(i), 1, elements)
		err = errors.Join(err, terr)
		return t
	})
	if err != nil {
		return nil, errors.Join(err, slab.Close())
	}
	return s, nil
}

// Info is how others open the slab; the owner announces it.
func (s *Shared) Info() schema.PoolInfo { return s.slab.Info() }

// Bring implements [Group].
func (s *Shared) Bring(r Round, i int, note []byte) error {
	if err := s.alone.Bring(r, i, note); err != nil {
		return err
	}
	if !s.inbox.IsNil() {
		if err := s.layOut(uint32(i), s.parts[i]); err != nil {
			return err
		}
	}
	return s.publish(uint32(i), r.word(laid, 0), note)
}

// layOut copies a tensor of the device into a slot.
func (s *Shared) layOut(slot uint32, from kernels.Tensor) error {
	t, err := s.slab.Tensor(slot, 1, s.elements)
	if err != nil {
		return err
	}
	s.dev.Download(t.F32, from)
	return s.dev.Sync()
}

// publish writes a slot's note and then its word.
func (s *Shared) publish(slot uint32, w word, note []byte) error {
	s.slab.SetGeneration(slot, 0)
	t, err := s.slab.Tensor(slot, 1, s.elements+noteFloats)
	if err == nil {
		err = writeNote(t.F32[s.elements:], note)
	}
	if err == nil {
		s.slab.SetGeneration(slot, uint64(w))
	}
	return err
}

// Withdraw implements [Group].
func (s *Shared) Withdraw() {
	for i := range s.parts {
		s.slab.SetGeneration(uint32(i), 0)
	}
}

// Sum implements [Group].
func (s *Shared) Sum(ctx context.Context, r Round, parts []Part, total kernels.Tensor) ([][]byte, error) {
	notes := make([][]byte, len(parts))
	s.dev.Zero(total)
	for i, p := range parts {
		if p.Member == s.self {
			notes[i] = s.add(total, p.Index)
			continue
		}
		v, w, err := s.await(ctx, r, p, laid)
		if err == nil {
			notes[i], err = s.read(v, w, p.Member, uint32(p.Index), func(t kernels.Tensor) error {
				if !s.inbox.IsNil() {
					s.dev.Upload(s.inbox, t.F32)
					t = s.inbox
				}
				s.dev.Add(total, t)
				return s.dev.Sync()
			})
		}
		if over(err) { // the member has ended, or taken its part back: the round is over, as the ledger will tell
			<-ctx.Done()
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("part %d of %s: %w", p.Index, p.Member.Rank, err)
		}
	}
	return notes, s.dev.Sync()
}

// await waits until a part of another member is at one of some stages of the round, and returns its word.
func (s *Shared) await(ctx context.Context, r Round, p Part, stages ...stage) (v *mem.View, w word, err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for poll := minPoll; ; poll = min(2*poll, maxPoll) {
		var have uint64
		if v, err = s.view(ctx, p.Member); err == nil {
			have, err = v.Generation(uint32(p.Index))
		}
		at, _ := word(have).at(r)
		switch {
		case ctx.Err() != nil:
			return nil, 0, context.Cause(ctx)
		case over(err), frozen(err):
			poll = lostPoll
		case err != nil:
			return nil, 0, err
		case slices.Contains(stages, at):
			return v, word(have), nil
		}
		timer.Reset(poll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		}
	}
}

// over says that what was to be read is there no more.
func over(err error) bool { return errors.Is(err, mem.ErrStale) || errors.Is(err, mem.ErrClosed) }

// frozen says that a process is there and does not answer. It goes on, or whoever replaces it puts it out of the group.
func frozen(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

func (s *Shared) view(ctx context.Context, m policy.Member) (*mem.View, error) {
	info, ok := s.known[m]
	if !ok {
		var err error
		if info, err = s.find(ctx, m); err != nil {
			return nil, err
		}
		s.known[m] = info
	}
	return s.views.Open(ctx, info)
}

// read calls f with the elements of a slot while it has a word, and returns its note. Both count only if the error is nil.
func (s *Shared) read(v *mem.View, w word, m policy.Member, slot uint32, f func(kernels.Tensor) error) (note []byte, err error) {
	ref := schema.SlotRef{Pool: m.Rank, Incarnation: m.Incarnation, Slot: slot, Generation: uint64(w)}
	err = v.Read(ref, 1, s.elements+noteFloats, func(t kernels.Tensor) error {
		var nerr error
		note, nerr = readNote(t.F32[s.elements:])
		return errors.Join(nerr, f(kernels.Host(1, s.elements, t.F32[:s.elements])))
	})
	return note, err
}

// Offer puts weights and moments where a rank that joins in the round takes them, with a note.
func (s *Shared) Offer(r Round, state [stateSlots]kernels.Tensor, note []byte) error {
	for i, from := range state {
		slot := uint32(len(s.parts) + i)
		s.slab.SetGeneration(slot, 0)
		if err := s.layOut(slot, from); err != nil {
			return err
		}
		if err := s.publish(slot, r.word(laid, 0), note); err != nil {
			return err
		}
	}
	return nil
}

// Fetch takes what a member offers in the round. mem.ErrStale says that it offers nothing.
func (s *Shared) Fetch(ctx context.Context, from policy.Member, r Round, state [stateSlots]kernels.Tensor) (note []byte, err error) {
	v, err := s.view(ctx, from)
	if err != nil {
		return nil, err
	}
	for i, into := range state {
		note, err = s.read(v, r.word(laid, 0), from, uint32(len(s.parts)+i), func(t kernels.Tensor) error {
			s.dev.Upload(into, t.F32)
			return s.dev.Sync()
		})
		if err != nil {
			return nil, err
		}
	}
	return note, nil
}

// Close implements [Group].
func (s *Shared) Close() error { return errors.Join(s.views.Close(), s.slab.Close()) }
