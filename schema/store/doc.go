// Package store is the token store: the documents that a run trains on, as token ids with a loss mask, in one file that
// is written once, named by what it was made of, and read through a memory map.
//
// Layout, little-endian:
//
//	header   256 bytes: magic, version, counts, hashes, checksums; its own checksum last
//	blocks   one a document: Length ids of 4 bytes, then Length mask bits in whole 4-byte words; padded to 8 bytes at the end
//	index    one entry of 24 bytes a document: where its block starts, its length, its supervised tokens, its key
//
// Documents are numbered from 0 in the order they were added.
package store

import "errors"

// Version is the version of the layout. It is part of what a store is named by.
const Version = 1

// ErrDamaged is what is wrong with a file that is torn, altered, or no token store.
var ErrDamaged = errors.New("damaged token store, prepare the data again")
