package modeltest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// counterparts says for each step which code of the stages does it, which functions of the model do it, and which rules
// both ask. Functions are named with their folder below stages; those of the model are here. Chance has no code.
var counterparts = []struct {
	step   string
	stages string
	model  string
	rules  string
}{
	{"builder publishes the next root of bucket", "batch.publishBucket", "publishable", "Publishable"},
	{"builder resumes", "batch.resume batch.publishBucket", "resume", ""},
	{"target pulls a root", "target.pull target.mayTake target.take", "pullable chosen wanted admits stale status pull", "First Admit ReserveFor Stale Dead"},
	{"target publishes its slot", "target.forward target.publish", "publishCaptures", ""},
	{"packer receives hop", "internal/worker.Receive internal/worker.WaitFree", "packArrivals park", ""},
	{"packer starts on hop", "pack.workable pack.pack internal/worker.settled", "packable workable unneeded stale admits startPacking", "Stale Settled Admit ReserveFor"},
	{"packer finishes hop", "pack.copy pack.publish internal/worker.Read", "finishPacking", ""},
	{"packer finds bad features in hop", "pack.judge internal/worker.Reject", "reject", "Judge Declare"},
	{"rank receives hop", "internal/worker.Receive draft.hungry", "trainArrivals park", ""},
	{"rank claims hop", "draft.workable draft.claimOnLedger internal/worker.settled", "claimable ripe opened unneeded claim claimed", "Settled Busy Claimed Claim"},
	{"rank has copied hop", "draft.use draft.giveUp draft.unclaim internal/worker.Read", "copied giveBack", "Claim"},
	{"rank adds hop", "draft.writeAdded draft.claimAgain draft.claimOnLedger draft.add draft.sumAhead draft.tell", "addable add added claimed", "Added Claim"},
	{"rank alone is refused hop", "draft.sumAhead draft.rejected draft.claimAgain", "refused startAgain", "Dead"},
	{"holder releases the slot of hop", "pack.close draft.settled internal/worker.Release", "release", ""},
	{"holder acknowledges hop", "pack.close draft.settled internal/worker.Done", "acknowledge", ""},
	{"rank is prepared", "draft.standing draft.standAlone draft.window", "preparable prepare", "Complete"},
	{"rank reduces", "draft.reduce draft.agree", "reducible reduce", "Prepared"},
	{"rank writes the commit", "draft.agree draft.commit draft.commitBehind draft.tell", "committable commit intern", "Agreed Commit Complete"},
	{"rank reads the commit and steps", "draft.closeWindow draft.advance draft.stepAhead draft.confirm draft.step", "committed readCommit stepOn", ""},
	{"rank acknowledges the committed roots", "draft.advance draft.tell draft.acknowledgeAll draft.acknowledge", "ackable ackRoots", ""},
	{"rank reads the epoch", "draft.over draft.closeWindow", "behindEpoch readEpoch", ""},
	{"supervisor writes a rank epoch", "internal/group.Bury internal/group.Remove internal/group.Change", "bereaved writeEpoch form", "RankEpoch"},
	{"rank joins", "draft.boundary draft.join", "joinable join", ""},
	{"rank saves a checkpoint", "draft.save", "savable save", ""},
	{"rank opens a generation", "draft.open", "orphaned openGeneration open", "Gen"},
	{"owner takes a release", "internal/worker.takeReleases", "takeRelease honour", ""},
	{"owner frees the slots of committed windows", "internal/worker.freeCommitted", "committedUses freeCommitted", ""},
	{"owner hands on again", "internal/worker.due internal/worker.Run", "forgotten handOn", ""},
	{"owner enters the new generation", "internal/worker.Generations target.serve pack.serve", "enter", ""},
	{"AckWait ends for root", "internal/worker.Hold internal/cli.handBack", "abandoned inProgress redeliverRoot", ""},
}

// none are steps without code: what chance does, what only a rule out of force allows, and what the stages need not do.
var none = map[string]string{
	"packer hands back hop":                         "only without ParkUntilOpen",
	"rank steps without the commit":                 "only without StepAfterCommit",
	"owner frees what lies behind the lowest index": "only for ranks that add in plan order: those of the stages have a part of the sum for each batch, so that none waits for the lowest index",
	"a dead rank's addition arrives":                "the wire",
	"a dead rank's acknowledgement arrives":         "the wire",
}

func TestModelAgreesWithStages(t *testing.T) {
	model := functions(t, ".")
	packages := map[string]map[string]map[string]bool{}
	named := map[string]bool{}
	for _, c := range counterparts {
		named[c.step] = true
		here, there := map[string]bool{}, map[string]bool{}
		for _, f := range strings.Fields(c.model) {
			gather(t, c.step, "model", f, model, here)
		}
		for _, f := range strings.Fields(c.stages) {
			folder, name, _ := strings.Cut(f, ".")
			if packages[folder] == nil {
				packages[folder] = functions(t, filepath.Join("..", "..", "..", "stages", folder))
			}
			gather(t, c.step, folder, name, packages[folder], there)
		}
		for _, rule := range strings.Fields(c.rules) {
			if !here[rule] || !there[rule] {
				t.Errorf("%s: %s is asked by the model: %v, by the stages: %v", c.step, rule, here[rule], there[rule])
			}
		}
	}
	for _, s := range steps {
		if !named[s.name] && !s.fault && none[s.name] == "" {
			t.Errorf("step %q names no code of the stages", s.name)
		}
	}
}

// functions returns what each function of a folder names: every identifier behind a dot.
func functions(t *testing.T, folder string) map[string]map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no code in %s: %v", folder, err)
	}
	all := map[string]map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			names := all[fn.Name.Name]
			if names == nil {
				names = map[string]bool{}
				all[fn.Name.Name] = names
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					names[s.Sel.Name] = true
				}
				return true
			})
		}
	}
	return all
}

func gather(t *testing.T, step, folder, name string, from map[string]map[string]bool, to map[string]bool) {
	t.Helper()
	names, ok := from[name]
	if !ok {
		t.Errorf("%s: %s has no function %s", step, folder, name)
	}
	for n := range names {
		to[n] = true
	}
}
