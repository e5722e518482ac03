package model

// Acceptance sums decoded rounds.
type Acceptance struct {
	Prompts int
	Rounds  int
	Tokens  int   // emitted in rounds, the target's own included
	At      []int // At[k-1]: rounds in which slots 1..k were all accepted, [B-1]
}

// NewAcceptance counts for blocks of blockSize.
func NewAcceptance(blockSize int) Acceptance { return Acceptance{At: make([]int, blockSize-1)} }

// Add counts one decoded prompt.
func (a *Acceptance) Add(d Decoded) {
	a.Prompts++
	for _, n := range d.Rounds {
		a.Rounds++
		a.Tokens += n
		for k := range n - 1 {
			a.At[k]++
		}
	}
}

// Length is tokens emitted per verification by the target: 1 means no gain, 0 that nothing was decoded.
func (a *Acceptance) Length() float64 {
	if a.Rounds == 0 {
		return 0
	}
	return float64(a.Tokens) / float64(a.Rounds)
}

// PerPosition is At as shares of the rounds.
func (a *Acceptance) PerPosition() []float64 {
	p := make([]float64, len(a.At))
	for k, n := range a.At {
		if a.Rounds > 0 {
			p[k] = float64(n) / float64(a.Rounds)
		}
	}
	return p
}
