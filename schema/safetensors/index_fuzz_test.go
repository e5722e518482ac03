package safetensors

import (
	"os"
	"path/filepath"
	"testing"
)

// An index opens nothing outside of its directory, and no tensor that a shard does not have.
func FuzzIndex(f *testing.F) {
	dir := f.TempDir()
	shard := raw(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8)
	if err := os.WriteFile(filepath.Join(dir, "one.safetensors"), shard, 0o644); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"metadata":{"total_size":8},"weight_map":{"a":"one.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../one.safetensors","b":"one.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"/etc/passwd"}}`))
	f.Add([]byte(`{"weight_map":null}`))
	f.Fuzz(func(t *testing.T, index []byte) {
		d := &Dir{path: dir, shards: map[string]*File{}}
		err := d.openShards(index)
		if err == nil && (len(d.files) != 1 || len(d.Names()) != 1 || d.Names()[0] != "a") {
			t.Fatalf("%q opens %v in %d files", index, d.Names(), len(d.files))
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
