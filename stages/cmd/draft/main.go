// Draft is the stage that trains the drafter; see package penstock/stages/draft.
package main

import (
	"penstock/stages/draft"
	"penstock/stages/internal/runtime"
)

func main() { runtime.Main("draft", draft.Run) }
