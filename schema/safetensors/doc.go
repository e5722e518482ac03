// Package safetensors reads and writes the safetensors format: eight bytes of little-endian header length, a JSON header
// {name: {dtype, shape, data_offsets}}, and the tensors' bytes without gaps, row-major, little-endian.
// (Format: https://github.com/huggingface/safetensors, README, "Format".)
//
// Files are mapped, not read: opening costs the header only, and a View's bytes are the file's pages. A mapped file must
// not be truncated in place while it is open; writers here replace files by rename, which is safe.
package safetensors
