package monitor

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"penstock/schema"
	"penstock/stages/internal/account"
)

var t0 = time.Unix(1_700_000_000, 0)

func progress(gen, windows uint32, after time.Duration) schema.Progress {
	return schema.Progress{
		Gen: gen, Windows: windows, Total: 100, Loss: 4.5, Tokens: 1000 * uint64(windows), Slots: 10 * uint64(windows),
		At: t0.Add(after).UnixNano(),
	}
}

func TestRates(t *testing.T) {
	tr := NewTracker()
	for w := range uint32(41) { // one window a second for 20 s, then two a second
		after := time.Duration(w) * time.Second
		if w > 20 {
			after = 20*time.Second + time.Duration(w-20)*time.Second/2
		}
		tr.Apply(progress(1, w, after))
	}
	v := tr.View(t0.Add(30 * time.Second))
	// The last 20 s hold 10 windows of one second and 20 of half a second.
	if math.Abs(v.TokensPerS-1500) > 1 || math.Abs(v.SlotsPerS-15) > 0.1 {
		t.Errorf("rates %v tokens/s, %v slots/s; want 1500, 15", v.TokensPerS, v.SlotsPerS)
	}
	if math.Abs(v.SecondsLeft-40) > 0.5 {
		t.Errorf("%v s left, want 60 windows at 1.5 a second", v.SecondsLeft)
	}
	if later := tr.View(t0.Add(30*time.Second + 500*time.Millisecond)); math.Abs(v.SecondsLeft-later.SecondsLeft-0.5) > 1e-6 {
		t.Errorf("time left does not run between windows: %v then %v", v.SecondsLeft, later.SecondsLeft)
	}
	if stalled := tr.View(t0.Add(90 * time.Second)); stalled.TokensPerS > 400 || stalled.SecondsLeft < 100 {
		t.Errorf("a minute without a window: %v tokens/s, %v s left", stalled.TokensPerS, stalled.SecondsLeft)
	}
}

func TestAverageRatesFromOneLook(t *testing.T) {
	tr := NewTracker()
	tr.Apply(progress(1, 50, 0))
	tr.Apply(schema.StageState{
		Instance: "draft-1", Stage: "draft", Tokens: 30_000,
		Seconds: map[string]float64{account.Starting: 7, account.Compute: 8, account.NoInput: 2},
	})
	v := tr.View(t0)
	if v.TokensPerS != 3000 || v.SlotsPerS != 30 || math.Abs(v.SecondsLeft-50.0/3) > 1e-9 {
		t.Errorf("%v tokens/s, %v slots/s, %v s left; want 3000, 30, 16.7", v.TokensPerS, v.SlotsPerS, v.SecondsLeft)
	}
}

func TestNewGenerationStartsRatesAnew(t *testing.T) {
	tr := NewTracker()
	tr.Apply(progress(1, 50, 0))
	tr.Apply(progress(1, 60, time.Second))
	tr.Apply(progress(2, 40, 10*time.Second))
	v := tr.View(t0.Add(10 * time.Second))
	if v.TokensPerS != 0 || v.SecondsLeft != -1 {
		t.Errorf("rates across generations: %v tokens/s, %v s left", v.TokensPerS, v.SecondsLeft)
	}
}

func TestOrderFollowsTheFlow(t *testing.T) {
	tr := NewTracker()
	for _, name := range []string{"draft-1", "target-10", "target-2", "batch", "pack-1"} {
		tr.Apply(schema.StageState{Instance: name})
	}
	for _, name := range []string{"b1024", "b96", "b128"} {
		tr.Apply(schema.BucketState{Bucket: name, Credit: 3})
	}
	v := tr.View(t0)
	v.Fill("b96", 2, 5)
	v.Fill("other", 9, 9)
	var got []string
	for _, s := range v.Stages {
		got = append(got, s.Instance)
	}
	for _, b := range v.Buckets {
		got = append(got, b.Name)
	}
	if want := "batch target-2 target-10 pack-1 draft-1 b96 b128 b1024"; strings.Join(got, " ") != want {
		t.Errorf("order %v, want %s", got, want)
	}
	if v.Buckets[0].Open != 2 || v.Buckets[1].Open != -1 {
		t.Errorf("open roots %+v", v.Buckets)
	}
}

func TestLine(t *testing.T) {
	tr := NewTracker()
	tr.Apply(schema.StageState{Instance: "batch", State: "waiting", Waiting: "the broker"})
	if got, want := tr.View(t0).Line(), "starting: batch waits for the broker"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	tr.Apply(progress(1, 10, 0))
	tr.Apply(progress(1, 20, 10*time.Second))
	tr.Apply(schema.BucketState{Bucket: "b64", Credit: 4})
	v := tr.View(t0.Add(10 * time.Second))
	v.Fill("b64", 3, 0)
	if got, want := v.Line(), "window 20/100  loss 4.500  1,000 tokens/s  10 slots/s  1m20s left  b64 3/4"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCrossEntropy stands beside a loss that is not it, such as the one of train.loss dpace.
func TestCrossEntropy(t *testing.T) {
	v := View{Windows: 1, Total: 2, Loss: 219.228, CrossEntropy: 3.125, SecondsLeft: -1}
	if got, want := v.Line(), "window 1/2  loss 219.228  ce 3.125"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := v.Table(Width)[1]; !strings.HasPrefix(got, "loss 219.228   ce 3.125   acceptance") {
		t.Errorf("%q", got)
	}
	v.Loss = v.CrossEntropy
	if got, want := v.Line(), "window 1/2  loss 3.125"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTableFitsTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z]{1,30}-[0-9]{1,4}`)
		v := View{
			Windows: rapid.Uint32().Draw(t, "windows"), Total: rapid.Uint32().Draw(t, "total"),
			Loss: rapid.Float64Range(0, 1e6).Draw(t, "loss"), TokensPerS: rapid.Float64Range(0, 1e12).Draw(t, "tokens"),
			SecondsLeft: rapid.Float64Range(-1, 1e6).Draw(t, "left"), Dead: rapid.Uint32().Draw(t, "dead"),
			Buckets: []Bucket{{Name: name.Draw(t, "bucket"), Open: rapid.IntRange(-1, 1e9).Draw(t, "open"), Published: rapid.Uint32().Draw(t, "pub")}},
			Stages:  []Stage{{Instance: name.Draw(t, "instance"), Waiting: rapid.String().Draw(t, "waiting"), Tokens: rapid.Uint64().Draw(t, "n"), Slots: 3}},
		}
		columns := rapid.IntRange(1, 2*Width).Draw(t, "columns")
		for _, line := range v.Table(columns) {
			if n := utf8.RuneCountInString(line); n > columns {
				t.Fatalf("%d columns: %q", n, line)
			}
			if strings.ContainsAny(line, "\n\r") {
				t.Fatalf("line break inside %q", line)
			}
		}
	})
}

// TestTableIsWhole where columns do not matter, as in a file.
func TestTableIsWhole(t *testing.T) {
	why := strings.Repeat("a free slot ", 20)
	v := View{Stages: []Stage{{Instance: "target-1", Waiting: why}}}
	if lines := v.Table(math.MaxInt); !strings.HasSuffix(lines[len(lines)-1], strings.TrimRight(why, " ")) {
		t.Errorf("cut: %q", lines[len(lines)-1])
	}
}

func TestNumbers(t *testing.T) {
	for want, got := range map[string]string{
		"0": thousands(0), "999": thousands(999), "1,000": thousands(999.7), "12,345,678": thousands(12345678),
		"59s": duration(59), "1m00s": duration(59.6), "1h02m": duration(3720), "[##..]": bar(0.5, 4), "[####]": bar(7, 4), "[....]": bar(-1, 4),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPSS(t *testing.T) {
	own := PSS(os.Getpid())
	if own < 1<<20 || own > 1<<34 {
		t.Errorf("own memory %d bytes", own)
	}
	if gone := PSS(1<<22 + 1); gone != 0 {
		t.Errorf("memory of no process: %d", gone)
	}
}
