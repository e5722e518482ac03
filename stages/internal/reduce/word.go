package reduce

import "hash/fnv"

// stage is how far a member is with a part of a round.
type stage byte

const (
	laid    stage = iota + 1 // out: the elements and the note are in the slab
	parted                   // from the communicator: the part will be laid out
	early                    // not brought, and some sections of it may be summed
	brought                  // in the device's memory; the note in the slab is an offer
	invited                  // brought, and the offer has the id of a new communicator
	summed                   // the communicator's sum is complete at this member
)

// word is what stands beside a part: the round that it is of, the stage, and how many sections of it may be summed before it
// is brought, which is final from then on. 0 is beside a part of no round.
type word uint64

// word is 48 bits of the round's hash, the stage and the sections, of which there are at most 255.
func (r Round) word(s stage, sections int) word {
	return word(r.hash()<<16 | uint64(s)<<8 | uint64(sections))
}

func (r Round) hash() uint64 {
	h := fnv.New64a()
	for _, v := range []uint32{r.Gen, r.Window, r.Epoch} {
		_, _ = h.Write([]byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)})
	}
	return h.Sum64() >> 16
}

// at returns the stage in a round and the sections; 0 and 0 if the word is not of the round.
func (w word) at(r Round) (s stage, sections int) {
	if uint64(w)>>16 != r.hash() {
		return 0, 0
	}
	return stage(w >> 8), int(byte(w))
}
