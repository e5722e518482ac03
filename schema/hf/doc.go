// Package hf reads Hugging Face model directories, targets and DFlash drafters, and writes drafters.
//
// A target's family is one file with one entry in the table of families.go. Weights are mapped, not read; every tensor that
// the forward needs is checked against config.json when the directory is opened.
package hf
