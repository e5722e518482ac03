package prepare

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"penstock/stages/internal/plan"
)

// document is one row made ready for the store, or the reason why it is not.
type document struct {
	line   int
	text   uint64 // hash of what the row holds
	ids    []int32
	mask   []uint8
	cut    bool
	prompt string // the first thing that the user says, of a held-out document
	no     *refusal
}

// document tokenises one row.
func (s *source) document(row rawRow) document {
	d := document{line: row.line}
	sample, no := parseRow(row)
	if no != nil {
		d.no = no
		return d
	}
	d.text = sample.hash()
	if sample.ids != nil {
		d.ids, d.mask = sample.ids, sample.mask
		if d.no = s.checkIDs(d.ids); d.no != nil {
			return d
		}
	} else {
		var err error
		if d.ids, d.mask, err = s.template.Encode(sample.talk, s.policy); err != nil {
			d.no = refuse(Unrendered, "%v", err)
			return d
		}
	}
	if most := int(s.info.MaxLength); len(d.ids) > most {
		d.ids, d.mask, d.cut = d.ids[:most], d.mask[:most], true
	}
	if len(plan.Valid(d.mask)) == 0 {
		d.no = refuse(NoAnchor, "no two neighbouring tokens among the first %d are trained on", len(d.ids))
	}
	if s.held(d.text) {
		d.prompt = sample.prompt()
	}
	return d
}

func (s *source) checkIDs(ids []int32) *refusal {
	for i, id := range ids {
		if id < 0 || uint32(id) >= s.info.Vocab {
			return refuse(BadTokens, "token %d is %d, the tokenizer has 0..%d", i, id, s.info.Vocab-1)
		}
	}
	return nil
}

// held tells whether a document is held out: by its hash alone, so that it is on the same side in every set of files.
func (s *source) held(text uint64) bool {
	return float64(text>>11)/(1<<53) < s.heldOut
}

// prompt is what the user says if that begins the conversation.
func (s sample) prompt() string {
	if len(s.talk.Messages) > 0 && s.talk.Messages[0].Role == "user" {
		return s.talk.Messages[0].Content
	}
	return ""
}

// hash is a stable hash of what a row holds.
func (s sample) hash() uint64 {
	h := xxhash.New()
	add := func(parts ...string) {
		for _, part := range parts {
			h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part))))
			h.WriteString(part)
		}
	}
	for _, m := range s.talk.Messages {
		add(m.Role, m.Content, m.Reasoning)
		if len(m.ToolCalls) > 0 {
			add("calls", string(m.ToolCalls))
		}
	}
	if len(s.talk.Tools) > 0 {
		add("tools", string(s.talk.Tools))
	}
	for i, id := range s.ids {
		h.Write(binary.LittleEndian.AppendUint32([]byte{s.mask[i]}, uint32(id)))
	}
	return h.Sum64()
}
