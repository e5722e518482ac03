package prepare

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"penstock/stages/internal/chat"
	"penstock/stages/internal/plan"
)

// document is one row made ready for the store, or the reason why it is not.
type document struct {
	line int
	text uint64 // hash of the conversation
	ids  []int32
	mask []uint8
	cut  bool
	no   *refusal
}

// document tokenises one row.
func (s *source) document(row rawRow) document {
	d := document{line: row.line}
	messages, no := parseRow(row)
	if no != nil {
		d.no = no
		return d
	}
	var err error
	if d.ids, d.mask, err = s.template.Encode(messages); err != nil {
		d.no = refuse(Unrendered, "%v", err)
		return d
	}
	if most := int(s.info.MaxLength); len(d.ids) > most {
		d.ids, d.mask, d.cut = d.ids[:most], d.mask[:most], true
	}
	if len(plan.Valid(d.mask)) == 0 {
		d.no = refuse(NoAnchor, "no two neighbouring tokens among the first %d are the assistant's", len(d.ids))
	}
	d.text = textHash(messages)
	return d
}

// textHash is a stable hash of a conversation.
func textHash(messages []chat.Message) uint64 {
	h := xxhash.New()
	for _, m := range messages {
		for _, part := range []string{m.Role, m.Content, m.Reasoning} {
			h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part))))
			h.WriteString(part)
		}
	}
	return h.Sum64()
}

// keys gives every document of a store its own key: the hash of its text, changed for repetitions.
type keys map[uint64]uint64

// next returns the key of a document and whether its text came before.
func (k keys) next(text uint64) (key uint64, repeated bool) {
	n := k[text]
	k[text]++
	if n == 0 {
		return text, false
	}
	b := binary.LittleEndian.AppendUint64(nil, text)
	return xxhash.Sum64(binary.LittleEndian.AppendUint64(b, n)), true
}
