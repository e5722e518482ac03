//go:build browser

package page_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// chrome is a headless Chromium that is driven over a pipe by its DevTools protocol: JSON messages, each ended by a zero byte.
type chrome struct {
	t       *testing.T
	to      *os.File
	session string

	mu      sync.Mutex
	next    int
	answers map[int]chan answer
	console []string // errors that the page gave
}

type answer struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// openChrome starts Chromium with one blank page. It ends with the test.
func openChrome(t *testing.T) *chrome {
	t.Helper()
	fromUs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, toUs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
		"--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{fromUs, toUs} // 3 and 4, as the protocol wants them
	if err := cmd.Start(); err != nil {
		t.Fatalf("start chromium: %v (install the package of that name)", err)
	}
	fromUs.Close()
	toUs.Close()
	c := &chrome{t: t, to: to, answers: map[int]chan answer{}}
	done := make(chan struct{})
	go func() { defer close(done); c.read(bufio.NewReader(from)) }()
	t.Cleanup(func() {
		to.Close() // Chromium ends with its pipe
		exited := make(chan struct{})
		go func() { cmd.Wait(); close(exited) }()
		select {
		case <-exited:
		case <-time.After(10 * time.Second):
			cmd.Process.Kill()
			<-exited
		}
		from.Close()
		<-done
	})
	var target struct{ TargetID, SessionID string }
	c.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	c.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	c.session = target.SessionID
	for _, domain := range []string{"Runtime", "Log", "Page", "Accessibility"} {
		c.call(domain+".enable", nil, nil)
	}
	return c
}

func (c *chrome) read(r *bufio.Reader) {
	for {
		b, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var a answer
		if json.Unmarshal(b[:len(b)-1], &a) != nil {
			continue
		}
		c.mu.Lock()
		switch a.Method {
		case "Runtime.exceptionThrown", "Log.entryAdded":
			c.console = append(c.console, string(a.Params))
		case "Runtime.consoleAPICalled":
			var p struct{ Type string }
			if json.Unmarshal(a.Params, &p) == nil && (p.Type == "error" || p.Type == "warning" || p.Type == "assert") {
				c.console = append(c.console, string(a.Params))
			}
		}
		if ch := c.answers[a.ID]; ch != nil {
			delete(c.answers, a.ID)
			ch <- a
		}
		c.mu.Unlock()
	}
}

// call does one thing and waits for it.
func (c *chrome) call(method string, params map[string]any, result any) {
	c.t.Helper()
	c.mu.Lock()
	c.next++
	id, ch := c.next, make(chan answer, 1)
	c.answers[id] = ch
	c.mu.Unlock()
	msg := map[string]any{"id": id, "method": method}
	if params != nil {
		msg["params"] = params
	}
	if c.session != "" {
		msg["sessionId"] = c.session
	}
	b, err := json.Marshal(msg)
	if err == nil {
		_, err = c.to.Write(append(b, 0))
	}
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	select {
	case a := <-ch:
		if a.Error != nil {
			c.t.Fatalf("%s: %s", method, a.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(a.Result, result); err != nil {
				c.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(time.Minute):
		c.t.Fatalf("%s: Chromium does not answer", method)
	}
}

// open goes to a page and waits until it shows a state.
func (c *chrome) open(ctx context.Context, url string) {
	c.t.Helper()
	c.call("Page.navigate", map[string]any{"url": url}, nil)
	c.until(ctx, "a state is shown", `document.readyState === "complete" && document.getElementById("figures")?.children.length > 0`)
}

// eval evaluates an expression in the page.
func (c *chrome) eval(expression string, result any) {
	c.t.Helper()
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Text string }
	}
	c.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &out)
	if out.ExceptionDetails != nil {
		c.t.Fatalf("%s: %s", expression, out.ExceptionDetails.Text)
	}
	if result != nil {
		if err := json.Unmarshal(out.Result.Value, result); err != nil {
			c.t.Fatalf("%s: %v in %s", expression, err, out.Result.Value)
		}
	}
}

// until waits for an expression to hold.
func (c *chrome) until(ctx context.Context, what, expression string) {
	c.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ok := false; !ok; {
		c.eval("Boolean("+expression+")", &ok)
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.t.Fatalf("waited in vain: %s: %v", what, context.Cause(ctx))
		}
	}
}

// size sets the window, in CSS pixels.
func (c *chrome) size(width, height int) {
	c.t.Helper()
	c.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

// theme has the page believe that the reader prefers light or dark.
func (c *chrome) theme(name string) {
	c.t.Helper()
	c.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": name}}}, nil)
}

// press presses a key.
func (c *chrome) press(key, code string, keyCode int, text string) {
	c.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		p := map[string]any{"type": kind, "key": key, "code": code, "windowsVirtualKeyCode": keyCode}
		if text != "" && kind == "keyDown" {
			p["text"] = text
		}
		c.call("Input.dispatchKeyEvent", p, nil)
	}
}

// shot writes a picture of the whole page, if pictures are asked for.
func (c *chrome) shot(name string) {
	c.t.Helper()
	dir := os.Getenv("PENSTOCK_SCREENSHOTS")
	if dir == "" {
		return
	}
	var out struct{ Data string }
	c.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &out)
	b, err := base64.StdEncoding.DecodeString(out.Data)
	if err = errors.Join(err, os.MkdirAll(dir, 0o755)); err == nil {
		err = os.WriteFile(fmt.Sprintf("%s/%s.png", dir, name), b, 0o644)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// errors returns what the page complained of so far.
func (c *chrome) errors() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.console...)
}
