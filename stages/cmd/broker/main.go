// Broker is the stage that the others meet at; see package penstock/stages/broker.
package main

import (
	"penstock/stages/broker"
	"penstock/stages/internal/runtime"
)

func main() { runtime.Main("broker", broker.Run) }
