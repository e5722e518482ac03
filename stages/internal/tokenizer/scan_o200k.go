package tokenizer

// o200k scans the pattern of gpt-oss.
type o200k struct{ table *[0x10000]class }

func (p o200k) split(ends []int, text string, base int) []int {
	s := scanner{p.table, text}
	for i := 0; i < len(text); {
		i = p.next(&s, i)
		ends = append(ends, base+i)
	}
	return ends
}

// next returns the end of the piece at i. The alternatives are tried in the pattern's order: a word that ends in lower
// case, then one that starts in upper case, each first with one leading character that is no letter, then without.
func (p o200k) next(s *scanner, i int) int {
	c, n := s.at(i)
	lead := i
	if c&(newline|word) == 0 {
		lead = i + n
	}
	for _, match := range []func(*scanner, int) int{lowerWord, upperWord} {
		for _, from := range [2]int{lead, i} {
			if end := match(s, from); end > from {
				return s.contraction(end)
			}
		}
	}
	if c&number != 0 {
		return s.digits(i, 3)
	}
	if end := s.symbols(i, true); end > i {
		return end
	}
	return s.blanks(i)
}

// lowerWord matches U*L+ at i, U the upper class and L the lower: its end, or i. Caseless characters are in both; where
// no lower one follows the run of U, the last caseless one of the run is the L+.
func lowerWord(s *scanner, i int) int {
	start, caseless := i, -1
	for {
		c, n := s.at(i)
		if c&upper == 0 {
			break
		}
		i += n
		if c&lower != 0 {
			caseless = i
		}
	}
	if end := s.run(i, lower); end > i {
		return end
	}
	if caseless >= 0 {
		return caseless
	}
	return start
}

// upperWord matches U+L* at i: its end, or i.
func upperWord(s *scanner, i int) int {
	end := s.run(i, upper)
	if end == i {
		return i
	}
	return s.run(end, lower)
}
