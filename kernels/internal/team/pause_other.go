//go:build !amd64

package team

import "runtime"

// pause lets other goroutines run.
func pause() { runtime.Gosched() }
