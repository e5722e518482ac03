package sim

import (
	"fmt"
	"strings"
)

// Table sets results side by side, in Markdown.
func Table(results []*Result) string {
	var b strings.Builder
	b.WriteString("| policy | tokens/s | of the bound | devices idle | targets idle | ranks idle | most held | mix error |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %.0f | %.1f %% | %.2f %% | %.2f %% | %.2f %% | %s | %.3f |\n", r.Policy, r.TokensPerS, 100*r.OfBound,
			100*r.DeviceIdle, 100*r.StageIdle[targetStage]["idle"], 100*r.StageIdle[draftStage]["idle"], size(r.PeakBytes), r.MixError)
	}
	return b.String()
}
