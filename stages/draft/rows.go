package draft

import "penstock/stages/internal/prepare"

// rows says what became of the rows of the data files.
type rows struct {
	Rows      int            `json:"rows"`
	Documents int            `json:"documents"` // that are trained on
	Rejected  int            `json:"rejected"`
	Rejects   map[string]int `json:"rejects,omitempty"` // by reason
	Cut       int            `json:"cut"`               // documents cut at data.max_length
	Repeated  int            `json:"repeated"`          // left out: they came before
	HeldOut   int            `json:"held_out"`          // left out: data.held_out
}

// rows reads what the preparation has left beside the store; nil, and a warning, if that cannot be read.
func (t *trainer) rows() *rows {
	r, err := prepare.ReportOf(t.run.Path())
	if err != nil {
		t.w.Log.Warn("the summary lacks what became of the data's rows", "err", err)
		return nil
	}
	return &rows{r.Rows, r.Documents, r.Rejected, r.Rejects, r.Cut, r.Repeated, r.HeldOut}
}
