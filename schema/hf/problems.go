package hf

import (
	"errors"
	"fmt"
)

const reported = 5 // problems in a message

// problems keeps the first few errors and counts the rest.
type problems struct {
	first []error
	more  int
}

func (p *problems) add(err error) {
	switch {
	case err == nil:
	case len(p.first) < reported:
		p.first = append(p.first, err)
	default:
		p.more++
	}
}

func (p *problems) join() error {
	if p.more > 0 {
		return errors.Join(append(p.first, fmt.Errorf("and %d more", p.more))...)
	}
	return errors.Join(p.first...)
}
