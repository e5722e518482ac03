// Package chaos runs the pipeline as real processes, kills and freezes them at random, and holds the result against an
// undisturbed run. It is a test without library code: see chaos_test.go and its flags.
package chaos
