package tokenizer

// The byte alphabet spells every byte as one printable character: printable Latin-1 characters as themselves, the other
// 68 bytes, in order, as U+0100 and up.

// byteRune is the character that spells each byte; runeByte is its inverse.
var byteRune, runeByte = func() (spell [256]rune, back map[rune]byte) {
	back = make(map[rune]byte, 256)
	next := rune(0x100)
	for b := range spell {
		switch {
		case b >= '!' && b <= '~', b >= 0xA1 && b <= 0xAC, b >= 0xAE:
			spell[b] = rune(b)
		default:
			spell[b] = next
			next++
		}
		back[spell[b]] = byte(b)
	}
	return spell, back
}()

// fromAlphabet returns the bytes that token spells. A token with a character outside the alphabet stands for itself.
func fromAlphabet(token string) string {
	out := make([]byte, 0, len(token))
	for _, r := range token {
		b, ok := runeByte[r]
		if !ok {
			return token
		}
		out = append(out, b)
	}
	return string(out)
}
