// Target is the stage that runs the frozen model and captures its layers; see package penstock/stages/target.
package main

import (
	"penstock/stages/internal/runtime"
	"penstock/stages/target"
)

func main() { runtime.Main("target", target.Run) }
