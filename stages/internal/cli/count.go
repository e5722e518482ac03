package cli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// count is a whole number of a flag, not below its least.
type count struct {
	n     *int
	least int
}

// countVar defines a flag that counts.
func countVar(fs *pflag.FlagSet, n *int, name string, value, least int, usage string) {
	*n = value
	fs.Var(count{n, least}, name, usage)
}

func (c count) String() string {
	if c.n == nil { // as pflag looks at the zero value
		return "0"
	}
	return strconv.Itoa(*c.n)
}

func (count) Type() string { return "int" }

func (c count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return errors.New("is no whole number")
	}
	if n < c.least {
		return fmt.Errorf("%d at least", c.least)
	}
	*c.n = n
	return nil
}
