package verify

import (
	"fmt"
	"slices"

	"penstock/schema/hf"
	"penstock/stages/internal/model"
)

const (
	trainedFile = "drafter.safetensors"
	slotsFile   = "step.safetensors"
)

// decoding is decode.json.
type decoding struct {
	TokensPerRound float64 `json:"tokens_per_round"`
	Num            float64 `json:"loss_num"`
	Den            float64 `json:"loss_den"`
	Hits           int     `json:"hits"`
	AcceptMean     float64 `json:"accept_mean"`
	Cases          []struct {
		ID     string  `json:"id"`
		Prompt []int32 `json:"prompt_ids"`
		Output []int32 `json:"output_ids"`
		Rounds []int   `json:"accepted_per_round"`
	} `json:"cases"`
}

// goldenMaxNew is the length at which the golden cases end.
const goldenMaxNew = 96

// trained checks a drafter that has learned something: its slots on the row of the partner folder, and its decoding.
func (r *run) trained() error {
	c, ok, err := r.config()
	if err != nil || !ok || !r.golden.has(trainedFile) {
		return err
	}
	d, err := r.drafter(c, trainedFile)
	if err != nil {
		return err
	}
	var want decoding
	if r.golden.has(decodeFile) {
		if err := r.golden.json(decodeFile, &want); err != nil {
			return err
		}
		if len(want.Cases) == 0 {
			return fmt.Errorf("%s holds nothing to compare: want cases", r.golden.path(decodeFile))
		}
	}
	if partner := r.golden.partner(); partner.has(stepFile, configFile) {
		if err := r.trainedRow(partner, c, d, want); err != nil {
			return err
		}
	}
	return r.decode(d, want)
}

func (r *run) trainedRow(partner folder, c hf.DrafterConfig, d *model.Drafter, want decoding) error {
	fresh, err := hf.ReadDrafterConfig(partner.path(configFile))
	if err != nil {
		return err
	}
	b, err := r.row(partner, c)
	if err != nil {
		return err
	}
	got, err := d.Step(b, model.Loss{Kind: model.DFlash, Gamma: fresh.Gamma}, nil)
	if err != nil {
		return err
	}
	if r.golden.has(decodeFile) {
		r.number("trained.loss_num", got.Num, want.Num, r.limits.loss)
		r.number("trained.loss_den", got.Den, want.Den, r.limits.loss)
		if !r.BF16 {
			r.number("trained.hits", float64(got.Hits), float64(want.Hits), 0)
			r.number("trained.accept_mean", float64(got.Accepted)/float64(got.Blocks), want.AcceptMean, r.limits.loss)
		}
	}
	if !r.golden.has(slotsFile) {
		return nil
	}
	t, err := r.golden.open(slotsFile)
	if err != nil {
		return err
	}
	r.slots("trained", got, t)
	if !r.BF16 && t.Has("hit") && t.Has("accept") {
		hit := make([]int32, len(got.Hit))
		for i, h := range got.Hit {
			hit[i] = int32(h)
		}
		equal(&r.Report, "trained.hit", hit, t.ints("hit"))
		accept := make([]float32, len(got.Accept))
		for i, n := range got.Accept {
			accept[i] = float32(n)
		}
		equal(&r.Report, "trained.accept", accept, t.floats("accept"))
	}
	return t.close()
}

// decode continues each prompt: tokens and rounds exact, in bf16 up to the first choice between logits too near to tell.
func (r *run) decode(d *model.Drafter, want decoding) error {
	m, err := r.loaded()
	if err != nil {
		return err
	}
	dec := model.Decoder{Target: m, Drafter: d, MaxNew: goldenMaxNew}
	for _, id := range r.target.EOS {
		dec.EOS = append(dec.EOS, int32(id))
	}
	cases := want.Cases
	if r.Decode > 0 {
		cases = cases[:min(r.Decode, len(cases))]
	}
	var ids, rounds tally
	total := model.NewAcceptance(d.Config.BlockSize)
	for _, c := range cases {
		got, err := dec.Decode(r.ctx, c.Prompt)
		if err != nil {
			return fmt.Errorf("%s: case %q: %w", decodeFile, c.ID, err)
		}
		total.Add(got)
		if slices.Equal(got.Output, c.Output) {
			ids.count(true, "")
			rounds.count(r.BF16 || slices.Equal(got.Rounds, c.Rounds), "case %q: %v, want %v", c.ID, got.Rounds, c.Rounds)
			continue
		}
		ok, err := r.forgiven(m, c.Prompt, got.Output, c.Output)
		if err != nil {
			return err
		}
		ids.count(ok, "case %q: %v, want %v", c.ID, got.Output, c.Output)
	}
	if len(cases) == 0 {
		return nil
	}
	r.exact("decode.ids", ids)
	if !r.BF16 {
		r.exact("decode.accepted_per_round", rounds)
	}
	if len(cases) == len(want.Cases) && !r.BF16 {
		r.number("decode.tokens_per_round", total.Length(), want.TokensPerRound, 1e-9)
	}
	return nil
}

// forgiven reports whether, in bf16, two outputs part at a choice between logits too near to tell, or in the tail of the
// last round.
func (r *run) forgiven(m *model.Target, prompt, got, want []int32) (bool, error) {
	if !r.BF16 {
		return false, nil
	}
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	if at == len(got) || at == len(want) {
		return true, nil
	}
	s, err := m.NewSession(len(prompt)+at, nil)
	if err != nil {
		return false, err
	}
	hidden, _, err := s.Append(slices.Concat(prompt, want[:at]))
	if err != nil {
		return false, err
	}
	last := hidden.RowRange(hidden.Rows-1, hidden.Rows)
	return r.close(m, last, got[at], want[at]), r.dev.Sync()
}
