// Package doctor finds out, before anything runs, what would go wrong: in a configuration, on a machine, or in memory.
package doctor

import (
	"fmt"
	"strings"
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"` // what was found, or what is wrong and what to do
}

// Checks are in the order in which they were made.
type Checks []Check

// good notes what was found.
func (c *Checks) good(name, format string, args ...any) {
	*c = append(*c, Check{name, true, fmt.Sprintf(format, args...)})
}

// bad notes a problem.
func (c *Checks) bad(name, format string, args ...any) {
	*c = append(*c, Check{name, false, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")})
}

// Err is nil if all is well, else an error that holds every problem, one a line.
func (c Checks) Err() error {
	var lines []string
	for _, k := range c {
		if !k.OK {
			lines = append(lines, k.Name+": "+k.Detail)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return problems(strings.Join(lines, "\n"))
}

type problems string

func (p problems) Error() string { return string(p) }
