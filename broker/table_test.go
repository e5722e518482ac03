package broker

import (
	"os"
	"strings"
	"testing"
)

func TestArchitectureGuideHasTheRealTopology(t *testing.T) {
	guide, err := os.ReadFile("../deploy/docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(guide), "\n"+Table()+"\n") {
		t.Errorf("deploy/docs/architecture.md differs from the topology, which is now:\n%s", Table())
	}
}
