package prepare

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"

	"penstock/schema/store"
	"penstock/stages/internal/plan"
	"penstock/stages/internal/rundir"
)

// Report says what a store holds and what was left out of it.
type Report struct {
	Store      string         `json:"store"` // path
	Data       string         `json:"data"`  // the store's name, by content
	Rows       int            `json:"rows"`
	Documents  int            `json:"documents"`
	Tokens     int            `json:"tokens"`
	Supervised float64        `json:"supervised"`  // share of the tokens
	Cut        int            `json:"cut"`         // documents cut at the maximum length
	Repeated   int            `json:"repeated"`    // documents that came before; they are left out
	HeldOut    int            `json:"held_out"`    // documents held out by their hash; they are left out
	PromptFile string         `json:"prompt_file"` // what the held-out documents ask, as eval.prompts takes it; empty for none
	Rejected   int            `json:"rejected"`
	Rejects    map[string]int `json:"rejects"`     // rows by reason
	RejectFile string         `json:"reject_file"` // empty without rejects
	Lengths    []Range        `json:"lengths"`     // histogram, by doubling lengths
	Buckets    []Range        `json:"buckets"`     // proposed, or as asked for
	Reused     bool           `json:"reused"`      // the store was there already
	Seconds    float64        `json:"seconds"`
}

// Range is the documents of some lengths: longer than the range before, up to UpTo tokens.
type Range struct {
	UpTo      int `json:"up_to"`
	Documents int `json:"documents"`
	Tokens    int `json:"tokens"`
}

// String is the report in words, for a terminal.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%d documents of %d rows, %d tokens, %.0f %% of them trained on; %d cut, %d repeated, %d held out\n", r.Store, r.Documents, r.Rows,
		r.Tokens, 100*r.Supervised, r.Cut, r.Repeated, r.HeldOut)
	for _, list := range []struct {
		name   string
		ranges []Range
	}{{"lengths", r.Lengths}, {"buckets", r.Buckets}} {
		fmt.Fprintf(&b, "%s up to", list.name)
		for _, x := range list.ranges {
			fmt.Fprintf(&b, "  %d: %d", x.UpTo, x.Documents)
		}
		b.WriteByte('\n')
	}
	if r.HeldOut > 0 && r.PromptFile != "" {
		fmt.Fprintf(&b, "prompts held out: %s\n", r.PromptFile)
	}
	if r.Rejected > 0 {
		fmt.Fprintf(&b, "%d rows rejected, each explained in %s: %s\n", r.Rejected, r.RejectFile, r.reasons())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// reasons lists why rows are rejected.
func (r Report) reasons() string {
	var reasons []string
	for reason, n := range r.Rejects {
		reasons = append(reasons, fmt.Sprintf("%s: %d", reason, n))
	}
	sort.Strings(reasons)
	return strings.Join(reasons, ", ")
}

// describe adds what the store itself tells.
func (r *Report) describe(o Options) error {
	s, err := store.Open(r.Store)
	if err != nil {
		return err
	}
	defer s.Close()
	r.Tokens = s.Tokens()
	r.Supervised = float64(s.Supervised()) / float64(s.Tokens())
	spec := o.Buckets
	if spec == "" {
		spec = "auto:4"
	}
	edges, err := plan.Edges(s, spec, o.MaxLength)
	if err != nil {
		return err
	}
	r.Buckets = ranges(s, edges)
	var doubling []int
	for n := 32; n < o.MaxLength; n *= 2 {
		doubling = append(doubling, n)
	}
	r.Lengths = ranges(s, append(doubling, o.MaxLength))
	return nil
}

// ranges counts documents up to each of the rising edges.
func ranges(docs plan.Lengths, edges []int) []Range {
	out := make([]Range, len(edges))
	for i, e := range edges {
		out[i].UpTo = e
	}
	for i := range docs.Len() {
		n := docs.Length(i)
		at := &out[sort.SearchInts(edges, n)]
		at.Documents++
		at.Tokens += n
	}
	return out
}

// nothingLeft is the error of data of which every row is rejected.
func (r *Report) nothingLeft(o Options) error {
	files := strings.Join(o.Files, ", ")
	if r.Rows == 0 {
		return fmt.Errorf("prepare %s: there are no rows; want JSON lines or Parquet with messages", files)
	}
	first := ""
	if no, err := firstReject(r.RejectFile); err == nil { // the file may not outlive the error
		first = fmt.Sprintf("; the first, %s:%d: %s", no.File, no.Line, no.Detail)
	}
	return fmt.Errorf("prepare %s: none of %d rows can be trained on (%s); each is explained in %s%s", files, r.Rows, r.reasons(), r.RejectFile, first)
}

func (r *Report) write(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return rundir.WriteFile(path, append(b, '\n'))
}

// ReportOf reads the report beside a store.
func ReportOf(path string) (Report, error) {
	return readReport(strings.TrimSuffix(path, ".store") + ".report.json")
}

// readReport reads what write wrote. A report that is torn counts as damage of its store.
func readReport(path string) (r Report, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("read report: %w", err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("read report %q: %w: %w", path, store.ErrDamaged, err)
	}
	return r, nil
}
