//go:build browser

package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"penstock/schema"
	"penstock/stages/stagestest"
)

// startRun trains until it is stopped, as processes of their own, and returns the run directory.
func startRun(t *testing.T, ctx context.Context) (dir string, stop func()) {
	t.Helper()
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin+"/", "./stages/cmd/...")
	build.Dir, build.Env = stagestest.Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	c := stagestest.Config(t, 2000, func(c *schema.Config) {
		c.Train.Epochs = 50
		c.Eval = schema.EvalConfig{Prompts: filepath.Join(stagestest.Root(), "deploy/demo/data/tiny-go-heldout-prompts.json"), Every: 5, Limit: 2, MaxNew: 16}
	})
	yaml, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, yaml, 0o644); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "run")
	up := exec.CommandContext(ctx, filepath.Join(bin, "penstock"), "up", "--run", dir, "--config", file)
	var out strings.Builder
	up.Stdout, up.Stderr = &out, &out
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- up.Wait() }()
	return dir, func() {
		t.Helper()
		if out, err := exec.CommandContext(ctx, filepath.Join(bin, "penstock"), "stop", "--run", dir).CombinedOutput(); err != nil {
			t.Fatalf("stop: %v\n%s", err, out)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("up: %v\n%s", err, out.String())
			}
		case <-ctx.Done():
			<-ended
			t.Fatalf("up did not end\n%s", out.String())
		}
	}
}

func pageURL(t *testing.T, ctx context.Context, dir string) string {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if b, err := os.ReadFile(filepath.Join(dir, "page.url")); err == nil {
			return strings.TrimSpace(string(b))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the run has no page")
		}
	}
}

// TestPage looks at a real run: values, themes, widths, keyboard, names for screen readers, and then at its report.
func TestPage(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	dir, stop := startRun(t, ctx)
	address := pageURL(t, ctx, dir)
	c := openChrome(t)
	c.theme("light")
	c.size(1440, 900)
	c.open(ctx, address)
	c.until(ctx, "a batch goes all the way", `document.querySelectorAll(".fall").length > 0 && Number(document.querySelector("[data-key=windows]").value) > 8`)
	compare(t, ctx, c, address)
	c.shot("light")
	c.theme("dark")
	c.shot("dark")
	c.until(ctx, "the ground is dark", `getComputedStyle(document.documentElement).backgroundColor === "rgb(17, 19, 23)"`)
	for _, width := range []int{360, 768, 1440, 2560} {
		c.size(width, 900)
		var over int
		c.eval("document.documentElement.scrollWidth - innerWidth", &over)
		if over > 0 {
			t.Errorf("at a width of %d the page is %d wider", width, over)
		}
		var cut []string
		c.eval(`[...document.querySelectorAll(".figures dd, .figures dt, .counts dd, .scroll, .lane .why, .fall .line span")].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)`, &cut)
		if len(cut) > 0 {
			t.Errorf("at a width of %d there is no room for %q", width, cut)
		}
		c.shot(fmt.Sprintf("dark-%d", width))
	}
	c.theme("light")
	c.size(360, 800)
	c.shot("light-360")
	c.size(1440, 900)
	keyboard(t, ctx, c)
	named(t, c)
	if got := c.errors(); len(got) > 0 {
		t.Errorf("the page complains: %v", got)
	}
	cutOff(t, ctx, c, address)
	said := len(c.errors()) // the browser's own, of a server that does not answer
	c.open(ctx, address)
	c.press("Tab", "Tab", 9, "")
	c.press("Tab", "Tab", 9, "")
	c.press("Enter", "Enter", 13, "\r")
	c.until(ctx, "the page is paused", `document.getElementById("pause").getAttribute("aria-pressed") === "true"`)
	stop()
	c.until(ctx, "the run ends, and a page that is paused says so", `document.body.dataset.life === "ended"`)
	ended := `document.querySelector("[data-key=seconds_left]").textContent === "–" && !document.getElementById("pause") &&
		document.getElementById("health-text").textContent.startsWith("Stopped at step ") && document.getElementById("heard").textContent.startsWith("Stopped at step ")`
	c.until(ctx, "the end is shown and spoken", ended)
	c.shot("ended")
	if got := c.errors()[said:]; len(got) > 0 {
		t.Errorf("the page complains: %v", got)
	}
	var steps string
	c.eval(`document.querySelector("[data-key=windows]").value`, &steps)

	report := openChrome(t)
	report.size(1440, 900)
	report.open(ctx, "file://"+filepath.Join(dir, "report.html"))
	var windows string
	report.eval(`document.querySelector("[data-key=windows]").value`, &windows)
	if windows != steps {
		t.Errorf("the report shows %s steps, the page ended with %s", windows, steps)
	}
	report.shot("report")
	if got := report.errors(); len(got) > 0 {
		t.Errorf("the report complains: %v", got)
	}
	var foreign int
	report.eval(`performance.getEntriesByType("resource").filter((e) => !e.name.startsWith("data:")).length`, &foreign)
	if foreign > 0 {
		t.Errorf("the report loads %d other files", foreign)
	}
}

// cutOff looks at the run through a server that goes away, as one does whose process is killed.
func cutOff(t *testing.T, ctx context.Context, c *chrome, page string) {
	t.Helper()
	to, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	between := httptest.NewServer(proxy)
	c.open(ctx, between.URL)
	between.CloseClientConnections()
	between.Close()
	c.until(ctx, "the page says that the run does not answer", `document.body.dataset.life === "lost" && document.getElementById("health").dataset.level === "warn" &&
		document.getElementById("heard").textContent.startsWith("The connection to the run is lost: what you see is how it was at ")`)
	c.size(1430, 900)
	c.until(ctx, "nothing flows, also when the page is drawn anew", `[...document.querySelectorAll(".pipe")].every((p) => getComputedStyle(p).animationName === "none")`)
	c.shot("lost")
}

// compare holds every number on the page against the API's state of the same serial.
func compare(t *testing.T, ctx context.Context, c *chrome, url string) {
	t.Helper()
	for {
		state, seq := fetchState(t, url)
		var shown struct {
			Seq  int
			Data map[string][2]string
		}
		c.eval(`({seq: Number(document.getElementById("seq").value), data: Object.fromEntries([...document.querySelectorAll("[data-key]")].map((e) => [e.dataset.key, [e.value, e.textContent]]))})`, &shown)
		if shown.Seq != seq {
			if ctx.Err() != nil {
				t.Fatal("page and API never show the same state")
			}
			continue
		}
		if len(shown.Data) < 40 {
			t.Errorf("only %d numbers on the page", len(shown.Data))
		}
		for key, v := range shown.Data {
			want, ok := lookup(state, strings.Split(key, "."))
			got, err := strconv.ParseFloat(v[0], 64)
			if !ok && strings.HasPrefix(key, "rates.") && got == 0 {
				continue // a stage that has not reported
			}
			if !ok || err != nil || got != want {
				t.Errorf("%s is %s on the page, %v in the API", key, v[0], want)
			}
			readable(t, key, want, v[1])
		}
		return
	}
}

// readable holds the text of a number against its value, where the text is a plain number.
func readable(t *testing.T, key string, want float64, text string) {
	t.Helper()
	plain := strings.NewReplacer(",", "", " batches/s", "", "\u00a0%", "").Replace(text)
	got, err := strconv.ParseFloat(plain, 64)
	if err != nil {
		return // a duration, a dash
	}
	digits := 0
	if dot := strings.IndexByte(plain, '.'); dot >= 0 {
		digits = len(plain) - dot - 1
	}
	if strings.HasSuffix(text, "%") {
		want *= 100
	}
	half := 0.5000001
	for range digits {
		half /= 10
	}
	if got < want-half || got > want+half {
		t.Errorf("%s reads %q, the API says %v", key, text, want)
	}
}

func fetchState(t *testing.T, url string) (any, int) {
	t.Helper()
	resp, err := http.Get(url + "api/state")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var state any
	if err := json.Unmarshal(b, &state); err != nil {
		t.Fatal(err)
	}
	seq, _ := lookup(state, []string{"seq"})
	return state, int(seq)
}

func lookup(v any, path []string) (float64, bool) {
	for _, p := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[p]
		case []any:
			i, err := strconv.Atoi(p)
			if err != nil || i >= len(x) {
				return 0, false
			}
			v = x[i]
		default:
			return 0, false
		}
	}
	f, ok := v.(float64)
	return f, ok
}

// keyboard goes through the page by Tab and uses what it stops at.
func keyboard(t *testing.T, ctx context.Context, c *chrome) {
	t.Helper()
	c.eval(`document.activeElement.blur(), window.scrollTo(0, 0)`, nil)
	var stops []string
	for range 5 {
		c.press("Tab", "Tab", 9, "")
		var at string
		c.eval(`document.activeElement.id || document.activeElement.className || document.activeElement.tagName`, &at)
		stops = append(stops, at)
		var outline string
		if c.eval(`getComputedStyle(document.activeElement).outlineStyle`, &outline); outline == "none" && at != "BODY" {
			t.Errorf("the focus on %s cannot be seen", at)
		}
		switch at {
		case "pause":
			c.press("Enter", "Enter", 13, "\r")
			c.until(ctx, "the page is paused", `document.getElementById("pause").getAttribute("aria-pressed") === "true"`)
			c.press("Enter", "Enter", 13, "\r")
			c.until(ctx, "the page goes on", `document.getElementById("pause").getAttribute("aria-pressed") === "false"`)
		case "theme":
			c.press("Enter", "Enter", 13, "\r")
			c.until(ctx, "the theme changes", `document.documentElement.dataset.theme === "dark"`)
			c.press("Enter", "Enter", 13, "\r")
			c.until(ctx, "the theme changes back", `document.documentElement.dataset.theme === "light"`)
		}
	}
	got := strings.Join(stops, " ")
	if !strings.HasPrefix(got, "skip pause theme scroll") {
		t.Errorf("Tab stops at %s", got)
	}
}

// named holds that whatever a screen reader announces has a name.
func named(t *testing.T, c *chrome) {
	t.Helper()
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name struct{ Value any }
		}
	}
	c.call("Accessibility.getFullAXTree", nil, &tree)
	roles := map[string]int{}
	for _, n := range tree.Nodes {
		role, _ := n.Role.Value.(string)
		name, _ := n.Name.Value.(string)
		if n.Ignored {
			continue
		}
		roles[role]++
		switch role {
		case "button", "image", "progressbar", "region", "heading", "table", "columnheader", "rowheader":
			if strings.TrimSpace(name) == "" && role != "table" {
				t.Errorf("a %s has no name", role)
			}
		}
	}
	for _, want := range []string{"progressbar", "status", "heading", "table", "button", "image", "main", "region"} {
		if roles[want] == 0 {
			t.Errorf("a screen reader finds no %s, of %v", want, roles)
		}
	}
}
