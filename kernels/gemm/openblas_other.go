//go:build !linux

package gemm

import "errors"

// openBLAS reports that this build cannot load the library.
func openBLAS() (*Path, error) { return nil, errors.New("load OpenBLAS: supported on Linux only") }
