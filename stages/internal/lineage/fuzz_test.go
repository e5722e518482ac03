package lineage

import (
	"os"
	"path/filepath"
	"testing"
)

// Whatever a ledger file holds, it is read or refused, and can be appended to after a cut.
func FuzzRead(f *testing.F) {
	path := filepath.Join(f.TempDir(), "ledger")
	f.Add([]byte("{\"gen\":1,\"open\":true,\"window\":0}\n{\"gen\":1,\"window\":0,\"batches\":[0,1]}\n"))
	f.Add([]byte("{\"gen\":1,\"window\":4294967295}\n{\"gen\":"))
	f.Add([]byte("null\n[]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		before, err := Read(path)
		kept := Survivors(before)
		for i := range kept {
			if i > 0 && len(before) > 0 && kept[i].Gen < kept[i-1].Gen {
				t.Fatalf("generation %d after %d", kept[i].Gen, kept[i-1].Gen)
			}
		}
		w, oerr := Open(path)
		if oerr != nil {
			t.Fatal(oerr)
		}
		if aerr := w.Append(Line{Gen: 9, Window: 7}); aerr != nil {
			t.Fatal(aerr)
		}
		if cerr := w.Close(); cerr != nil {
			t.Fatal(cerr)
		}
		after, aerr := Read(path)
		if err == nil && (aerr != nil || len(after) != len(before)+1 || after[len(before)].Window != 7) {
			t.Fatalf("%d lines before, %d after an append (%v)", len(before), len(after), aerr)
		}
	})
}
