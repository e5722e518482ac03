package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"penstock/broker"
	"penstock/schema"
	"penstock/schema/checkpoint"
	"penstock/schema/safetensors"
	"penstock/schema/safetensors/safetensorstest"
	"penstock/stages/batch"
	brokerstage "penstock/stages/broker"
	"penstock/stages/draft"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
	"penstock/stages/pack"
	"penstock/stages/target"
)

// TestMain makes the test binary penstock and every stage. With FAKE set, the stages take part in a run but compute
// nothing; the other FAKE_ variables say what they do.
func TestMain(m *testing.M) {
	stage := func(name string, real, fake func(context.Context, *runtime.Env) error) func() {
		return func() {
			if os.Getenv("FAKE") != "" {
				real = fake
			}
			runtime.Main(name, real)
		}
	}
	testscript.Main(m, map[string]func(){
		"penstock": func() { os.Exit(Main()) },
		"broker":   stage("broker", brokerstage.Run, brokerstage.Run),
		"batch":    stage("batch", batch.Run, fakeWorker),
		"target":   stage("target", target.Run, fakeWorker),
		"pack":     stage("pack", pack.Run, fakeWorker),
		"draft":    stage("draft", draft.Run, fakeTrainer),
		"record":   func() { os.Exit(writeRecord()) },
	})
}

// testConfig is a small run over the demo's model and data, whose folder it takes.
const testConfig = `
target: {dir: %[1]s/models/tiny-go, taps: [1, 2, 4], instances: 2}
data: {files: [%[1]s/data/tiny-go-chat.jsonl], max_length: 512}
batch: {tokens: 1024}
window: {batches: 2}
train: {anchors: 4, epochs: 1}
draft: {block_size: 8, layers: 1}
eval: {prompts: %[1]s/data/tiny-go-heldout-prompts.json, limit: 2, max_new: 24}
`

func TestScripts(t *testing.T) {
	demo, err := filepath.Abs("../../../deploy/demo")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("DEMO", demo)
			config := fmt.Sprintf(testConfig, demo)
			return os.WriteFile(filepath.Join(env.WorkDir, "test.yaml"), []byte(config), 0o644)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"await": await, "awaiturl": awaitURL, "damage": damage, "kill9": kill9, "predicted": predicted,
		},
	})
}

// await runs a command until it succeeds and prints what a regular expression matches.
func await(ts *testscript.TestScript, neg bool, args []string) {
	poll(ts, fmt.Sprint(args), func() bool {
		return ts.Exec(args[1], args[2:]...) == nil && regexp.MustCompile(args[0]).MatchString(ts.ReadFile("stdout"))
	})
}

// awaiturl waits for a run's broker and sets URL to its address.
func awaitURL(ts *testscript.TestScript, neg bool, args []string) {
	poll(ts, "the broker of "+args[0], func() bool {
		dir, err := rundir.Open(ts.MkAbs(args[0]))
		if err != nil {
			return false
		}
		url, err := dir.URL()
		ts.Check(err)
		ts.Setenv("URL", url)
		return url != ""
	})
}

// damage flips a bit in the tensors of a run's newest checkpoint.
func damage(ts *testscript.TestScript, neg bool, args []string) {
	list, err := checkpoint.List(filepath.Join(ts.MkAbs(args[0]), "checkpoints"))
	ts.Check(err)
	if len(list) < 2 {
		ts.Fatalf("%d checkpoints: none would be left to go back to", len(list))
	}
	ts.Check(safetensorstest.Change(filepath.Join(list[0].Dir, safetensors.SingleFile)))
}

// kill9 kills an instance of a run and waits until another process has its name.
func kill9(ts *testscript.TestScript, neg bool, args []string) {
	dir, err := rundir.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	pids, err := dir.PIDs()
	ts.Check(err)
	old := pids[args[1]]
	ts.Check(syscall.Kill(old, syscall.SIGKILL))
	poll(ts, "a new "+args[1], func() bool {
		pids, err := dir.PIDs()
		return err == nil && pids[args[1]] != 0 && pids[args[1]] != old
	})
}

func poll(ts *testscript.TestScript, what string, ok func() bool) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(30 * time.Second); !ok(); {
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("waited in vain for %s", what)
		}
	}
}

func writeRecord() int {
	b, err := schema.Encode(schema.Control{Run: "r", Want: "stop"})
	if err != nil {
		return 1
	}
	_, err = os.Stdout.Write(b)
	if err != nil {
		return 1
	}
	return 0
}

func connect(ctx context.Context, env *runtime.Env) (broker.Board, func(), error) {
	url, err := env.NATS(ctx)
	if err != nil {
		return broker.Board{}, nil, err
	}
	conn, err := broker.Dial(ctx, url, env.Instance, broker.Options{Access: runtime.Access(env.Run, env.Config, broker.RoleBroker)})
	if err != nil {
		return broker.Board{}, nil, err
	}
	return conn.Board(), conn.Close, nil
}

// fakeWorker reports itself and ends when the trainer is done, or the run is asked to stop.
func fakeWorker(ctx context.Context, env *runtime.Env) error {
	switch os.Getenv("FAKE_" + env.Stage) {
	case "permanent":
		return runtime.Permanent(errors.New("no model here"))
	case "crash":
		return errors.New("out of luck")
	}
	board, closeConn, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer closeConn()
	if err := board.Put(ctx, "stage."+env.Instance, schema.StageState{Instance: env.Instance, Stage: env.Stage, State: "running", At: time.Now().UnixNano()}); err != nil {
		return err
	}
	return watchEnd(ctx, board)
}

var errEnd = errors.New("end")

func watchEnd(ctx context.Context, board broker.Board) error {
	err := board.Watch(ctx, ">", func(h broker.Hint) error {
		switch r := h.Record.(type) {
		case schema.Progress:
			if r.Done {
				return errEnd
			}
		case schema.Control:
			if r.Want == wantStop {
				return errEnd
			}
		}
		return nil
	})
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}

// fakeTrainer commits five windows in a generation of its own; after the third it may wait to be stopped, or fail.
func fakeTrainer(ctx context.Context, env *runtime.Env) error {
	board, closeConn, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer closeConn()
	if err := board.Put(ctx, "bucket.b512", schema.BucketState{Bucket: "b512", Credit: 4, Floor: 2, Ceiling: 6, Published: 3, Remaining: 2}); err != nil {
		return err
	}
	said, _, err := board.Get(ctx, "progress")
	if err != nil {
		return err
	}
	last, _ := said.Record.(schema.Progress)
	for w := uint32(1); w <= 5; w++ {
		p := schema.Progress{Gen: last.Gen + 1, Windows: w, Total: 5, Loss: 4.5, Tokens: 1000 * uint64(w), Slots: 100 * uint64(w), At: time.Now().UnixNano(), Done: w == 5}
		if err := board.Put(ctx, "progress", p); err != nil {
			return err
		}
		switch what := os.Getenv("FAKE_draft"); {
		case w == 3 && what == "hold":
			return watchEnd(ctx, board)
		case w == 3 && what == "unsaved":
			_ = watchEnd(ctx, board)
			return errors.New("no room for a checkpoint")
		case w == 3 && what == "refused":
			return errors.New("refused again")
		}
	}
	return rundir.WriteJSON(env.Run.Summary(), map[string]any{"steps": 5, "tokens": 5000, "slots": 500, "seconds": 1.5, "loss": 4.5, "accept_length": 1.25})
}
