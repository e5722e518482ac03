package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"

	"penstock/stages/internal/rundir"
)

// WriteReport writes the run as it ended to one file that needs nothing else: the page with its style, its script and
// the last state in it, and the timelines of the whole session.
func (c *Collector) WriteReport(path string) error {
	s := c.State()
	var names []string
	for _, st := range s.Stages {
		names = append(names, st.Instance)
	}
	s.Timeline = c.whole.timeline(names)
	state, err := json.Marshal(s) // which writes < as \u003c: the state cannot end its element
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	page, err := fs.ReadFile(files, "index.html")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	for _, in := range []struct{ link, file, open, close string }{
		{`<link rel="stylesheet" href="page.css">`, "page.css", "<style>", "</style>"},
		{`<script src="charts.js"></script>`, "charts.js", "<script>", "</script>"},
		{`<script src="page.js"></script>`, "page.js", `<script type="application/json" id="state">` + string(state) + "</script><script>", "</script>"},
	} {
		text, err := fs.ReadFile(files, in.file)
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		if !bytes.Contains(page, []byte(in.link)) {
			return fmt.Errorf("report: index.html has no %s", in.link)
		}
		page = bytes.Replace(page, []byte(in.link), []byte(in.open+string(text)+in.close), 1)
	}
	return rundir.WriteFile(path, page)
}
