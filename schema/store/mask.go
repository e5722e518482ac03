package store

import "math/bits"

// Mask is the loss mask of one document.
type Mask struct {
	words []uint32 // bit i%32 of word i/32 is token i
	n     int
}

// Len is the number of tokens.
func (m Mask) Len() int { return m.n }

// At tells whether token i is supervised.
func (m Mask) At(i int) bool { return m.words[i/32]>>(i%32)&1 != 0 }

// AppendTo appends one entry a token: 1 where it is supervised, else 0.
func (m Mask) AppendTo(dst []uint8) []uint8 {
	for i := range m.n {
		dst = append(dst, uint8(m.words[i/32]>>(i%32)&1))
	}
	return dst
}

// count is the number of supervised tokens. Bits past the last token count too: there are none in a sound store.
func (m Mask) count() (n int) {
	for _, w := range m.words {
		n += bits.OnesCount32(w)
	}
	return n
}
