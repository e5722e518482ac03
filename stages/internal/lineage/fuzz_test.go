package lineage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever a ledger file holds, it is read or refused, and can be appended to after a cut.
func FuzzRead(f *testing.F) {
	path := filepath.Join(f.TempDir(), "ledger")
	f.Add([]byte("{\"gen\":1,\"open\":true,\"window\":0}\n{\"gen\":1,\"window\":0,\"batches\":[0,1]}\n"))
	f.Add([]byte("{\"gen\":1,\"window\":4294967295}\n{\"gen\":"))
	f.Add([]byte("null\n[]\n"))
	for _, lines := range []string{
		`{"gen":1,"open":true,"window":0}|{"gen":1,"window":0,"epoch":0,"batches":[0,1],"documents":4,"tokens":9,"slots":3,"keys":7}|` +
			`{"gen":2,"open":true,"window":0}|{"gen":2,"window":0,"batches":[1],"dead":[0],"documents":2}|{"gen":2,"window":1,"batches":[2,3],"skipped":true}|`,
		`{"gen":2,"open":true,"window":3}|{"gen":1,"open":true,"window":0}|{"gen":1,"window":0}|`, // generations that go back
		`{"gen":1,"window":0,"batches":[0,0,0],"dead":[0]}|{"gen":1,"window":0,"batches":[0]}|`,   // one batch again and again
		`{"gen":1,"window":9,"batches":[4294967295],"dead":[2147483648]}|`,
		`{"gen":1,"window":0,"batches":[-1]}|`, `{"gen":1,"window":1e99}|`, `{"gen":1,"window":0,"keys":18446744073709551616}|`,
		`{"gen":1,"window":0,"unknown":1}|`, `{"gen":1,"window":0}{"gen":1,"window":1}|`, `{"gen":1,"gen":2,"window":0}|`,
		"\xff\xfe{}|", "{\"gen\":1}\r|\r|", "|||", "\x00|", `{"gen":1,"window":0,"batches":[` + strings.Repeat("0,", 1<<10) + `0]}|`,
	} {
		f.Add([]byte(strings.ReplaceAll(lines, "|", "\n")))
	}
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
		if r := Count(before, grid{3}); r.Missing < 0 || r.Duplicates < 0 || r.Windows < 0 || r.Documents < 0 {
			t.Fatalf("counted %+v", r)
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
