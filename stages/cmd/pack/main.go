// Pack is the stage that pulls captures to the drafter's device and checks them; see package penstock/stages/pack.
package main

import (
	"penstock/stages/internal/runtime"
	"penstock/stages/pack"
)

func main() { runtime.Main("pack", pack.Run) }
