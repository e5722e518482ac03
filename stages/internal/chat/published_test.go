//go:build templates

package chat

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPublishedTemplates holds the chat templates of published models to Python's renderings; deploy/tools/templates/compare.sh
// makes both.
func TestPublishedTemplates(t *testing.T) {
	dir := os.Getenv("PENSTOCK_TEMPLATES")
	checkRenderings(t, dir, filepath.Join(dir, "renderings.json"))
}
