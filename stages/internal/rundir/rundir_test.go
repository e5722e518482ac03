package rundir

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCreateNeverReusesADirectory(t *testing.T) {
	root := filepath.Join(t.TempDir(), "runs")
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	seen := map[string]bool{}
	for range 3 {
		d, err := Create(root, "tiny", at)
		if err != nil {
			t.Fatal(err)
		}
		if seen[d.Name()] || !strings.HasPrefix(d.Name(), "20260304-050607-tiny") {
			t.Fatalf("name %q after %v", d.Name(), seen)
		}
		seen[d.Name()] = true
	}
}

func TestNewest(t *testing.T) {
	root := t.TempDir()
	if _, err := Newest(root); !errors.Is(err, ErrNone) {
		t.Fatalf("empty root: %v", err)
	}
	for i, name := range []string{"b", "c", "a"} {
		d, err := Make(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.WriteConfig([]byte("seed: 1\n")); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(1_000_000+int64(i), 0)
		if err := os.Chtimes(d.ConfigFile(), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Make(filepath.Join(root, "unstarted")); err != nil {
		t.Fatal(err)
	}
	d, err := Newest(root)
	if err != nil || filepath.Base(d.Path()) != "a" {
		t.Fatalf("newest = %v, %v; want a", d, err)
	}
}

func TestConfigIsWrittenOnce(t *testing.T) {
	d, err := Make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := d.Config(); b != nil || err != nil {
		t.Fatalf("before: %q, %v", b, err)
	}
	if err := d.WriteConfig([]byte("seed: 1\n")); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteConfig([]byte("seed: 2\n")); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("second write: %v", err)
	}
	if b, _ := d.Config(); string(b) != "seed: 1\n" {
		t.Fatalf("config = %q", b)
	}
	if left, _ := filepath.Glob(d.join(".config*")); len(left) != 0 {
		t.Fatalf("left over: %v", left)
	}
}

func TestSmallFiles(t *testing.T) {
	d, err := Make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if gen, err := d.Generation(); gen != 0 || err != nil {
		t.Fatalf("generation = %d, %v", gen, err)
	}
	for _, gen := range []uint32{1, 2, 40} {
		if err := d.WriteGeneration(gen); err != nil {
			t.Fatal(err)
		}
		if got, err := d.Generation(); got != gen || err != nil {
			t.Fatalf("generation = %d, %v; want %d", got, err, gen)
		}
	}
	if err := os.WriteFile(d.GenerationFile(), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Generation(); err == nil || !strings.Contains(err.Error(), "generation") {
		t.Fatalf("torn generation: %v", err)
	}
	if err := d.WritePIDs(map[string]int{"target-1": 12}); err != nil {
		t.Fatal(err)
	}
	if pids, err := d.PIDs(); err != nil || pids["target-1"] != 12 {
		t.Fatalf("pids = %v, %v", pids, err)
	}
	if url, err := d.URL(); url != "" || err != nil {
		t.Fatalf("url = %q, %v", url, err)
	}
	if err := d.WriteURL("nats://127.0.0.1:4222"); err != nil {
		t.Fatal(err)
	}
	if url, _ := d.URL(); url != "nats://127.0.0.1:4222" {
		t.Fatalf("url = %q", url)
	}
	for range 2 {
		if err := d.ForgetURL(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMain lets the test binary stand in for a second process that tries the locks.
func TestMain(m *testing.M) {
	if path := os.Getenv("RUNDIR_TEST_LOCK"); path != "" {
		d, err := Make(path)
		if err == nil {
			_, err = d.Lock()
		}
		if err == nil {
			_, err = d.LockInstance("target-1")
		}
		if err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestLocksHoldAcrossProcesses(t *testing.T) {
	d, err := Make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	other := func() (string, error) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "RUNDIR_TEST_LOCK="+d.Path())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	run, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := other(); err == nil || !strings.Contains(out, "runs on it already") {
		t.Fatalf("second process took the run lock: %q", out)
	}
	if err := run.Release(); err != nil {
		t.Fatal(err)
	}
	inst, err := d.LockInstance("target-1")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := other(); err == nil || !strings.Contains(out, `"target-1"`) {
		t.Fatalf("second process took the instance lock: %q", out)
	}
	if hs, err := d.Holders(); err != nil || len(hs) != 1 || hs[0] != (Holder{"target-1", os.Getpid()}) {
		t.Fatalf("holders = %v, %v", hs, err)
	}
	if err := inst.Release(); err != nil {
		t.Fatal(err)
	}
	if hs, err := d.Holders(); err != nil || len(hs) != 0 {
		t.Fatalf("holders = %v, %v; want none", hs, err)
	}
	if out, err := other(); err != nil {
		t.Fatalf("locks not free after release: %v %q", err, out)
	}
}

func TestMetricsAddresses(t *testing.T) {
	d, err := Make(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	for _, instance := range []string{"pack-1", "draft-1"} {
		if err := d.WriteMetrics(instance, "http://x/"+instance); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(d.MetricsFile(".half.written"), []byte("htt"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.ForgetMetrics("draft-1"); err != nil {
		t.Fatal(err)
	}
	got, err := d.MetricsURLs()
	if err != nil || len(got) != 1 || got["pack-1"] != "http://x/pack-1" {
		t.Errorf("addresses are %v, %v", got, err)
	}
}
