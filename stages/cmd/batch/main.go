// Batch is the stage that plans the run and publishes it window by window; see package penstock/stages/batch.
package main

import (
	"penstock/stages/batch"
	"penstock/stages/internal/runtime"
)

func main() { runtime.Main("batch", batch.Run) }
