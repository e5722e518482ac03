//go:build !linux

package durable

import "os"

// exchange swaps two paths. A crash between its steps leaves b's old content under b.old.
func exchange(a, b string) error {
	old := b + ".old"
	if err := os.Rename(b, old); err != nil {
		return err
	}
	if err := os.Rename(a, b); err != nil {
		os.Rename(old, b)
		return err
	}
	return os.Rename(old, a)
}
