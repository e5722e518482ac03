package plan

// inWindow is the number of batches of bucket b in window w, 0 past the end of the run.
func (p *Plan) inWindow(b, w int) int {
	if w >= p.windows {
		return 0
	}
	n := len(p.epochs) - 1
	for p.epochs[n].window > w {
		n--
	}
	rows := p.epochs[n].before[w-p.epochs[n].window:]
	return rows[1][b] - rows[0][b]
}

// Floor is the lowest pull limit of a bucket that cannot stop the run: the most batches of it in any one window.
func (p *Plan) Floor(bucket string) int { return p.Ceiling(bucket, 0) }

// Ceiling is the most batches of a bucket that can be open at once with lookahead windows published ahead: the maximum over
// w of its batches in windows w..w+lookahead.
func (p *Plan) Ceiling(bucket string, lookahead int) int {
	b := p.bucket(bucket)
	if b < 0 || lookahead < 0 {
		return 0
	}
	most, open := 0, 0
	for w := range p.windows {
		open += p.inWindow(b, w)
		if w > lookahead {
			open -= p.inWindow(b, w-lookahead-1)
		}
		most = max(most, open)
	}
	return most
}
