package stages_test

import (
	"regexp"
	"strings"
	"sync"
	"testing"

	"penstock/broker"
	"penstock/broker/slots"
	"penstock/schema"
	"penstock/stages/stagestest"
)

// A rank that dies as it writes an addition has the root in its journal: whoever has the hop as well finds the addition, and lets the
// packer's slot go, whose owner has marked the root.
func TestRootIsListedBeforeTheLedgerHasItsBatch(t *testing.T) {
	p := stagestest.New(t, stagestest.Config(t, 24, func(c *schema.Config) { small(c); c.Draft.Ranks = 2 }))
	batch := regexp.MustCompile(`^ps\.ledger\.\d+\.\d+\.\d+$`)
	var mu sync.Mutex
	times := map[string]int{}   // that a rank wrote of a batch: the claim, then the addition
	listed := map[string]bool{} // whether a rank's journal had a root when it wrote its first addition
	p.Fault = func(instance string, op broker.Op, subject string) broker.Outcome {
		if !strings.HasPrefix(instance, "draft-") || op != broker.OpPublish || !batch.MatchString(subject) {
			return broker.Pass
		}
		mu.Lock()
		defer mu.Unlock()
		if times[instance+subject]++; times[instance+subject] < 2 {
			return broker.Pass
		}
		if _, before := listed[instance]; !before {
			j, err := slots.ReadJournal(p.Dir.Journal(instance))
			if err != nil {
				t.Error(err)
			}
			listed[instance] = len(j.Uses) > 0
		}
		return broker.Pass
	}
	if err := p.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if len(listed) == 0 {
		t.Error("no rank has added anything")
	}
	for instance, is := range listed {
		if !is {
			t.Errorf("%s wrote an addition with no root in its journal", instance)
		}
	}
}
