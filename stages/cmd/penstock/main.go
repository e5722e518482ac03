// Penstock trains drafters for speculative decoding; see `penstock --help`.
package main

import (
	"os"

	"penstock/stages/internal/cli"
)

func main() { os.Exit(cli.Main()) }
