// Package docs checks what the documents claim.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	rowNumber = regexp.MustCompile(`^\| (\d+) \|`)
	folder    = regexp.MustCompile("`((?:broker|kernels|schema|stages)[a-z/]*)`")
	testName  = regexp.MustCompile(`\bTest[A-Z]\w+`)
)

// TestBugReportsNameTests: every test in the table exists in the package named before it.
func TestBugReportsNameTests(t *testing.T) {
	text, err := os.ReadFile("bug-reports.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		if !rowNumber.MatchString(line) {
			continue
		}
		rows++
		at := folder.FindAllStringSubmatchIndex(line, -1)
		for i, m := range at {
			end := len(line)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			sources := tests(t, filepath.Join("../..", line[m[2]:m[3]]))
			for _, name := range testName.FindAllString(line[m[1]:end], -1) {
				if !strings.Contains(sources, "func "+name+"(") {
					t.Errorf("there is no %s in %s: %s", name, line[m[2]:m[3]], line)
				}
			}
		}
	}
	if rows != 51 {
		t.Errorf("%d reports, want 51", rows)
	}
}

func tests(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}
