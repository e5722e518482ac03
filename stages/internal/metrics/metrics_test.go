package metrics

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"penstock/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func scrape(t *testing.T, s *Set) string {
	t.Helper()
	srv, err := s.Serve("127.0.0.1", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(srv.URL() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	return string(b)
}

func TestScrape(t *testing.T) {
	draft := New("r", "draft", "draft-1")
	draft.Watch("r", "draft", "draft-1", func() schema.StageState {
		return schema.StageState{Batches: 7, Tokens: 900, Slots: 3, SlotsUsed: 2, Seconds: map[string]float64{"compute": 2.5, "no input": 0.5}}
	})
	draft.Progress(schema.Progress{Windows: 5, Total: 9, Loss: 3.5, CrossEntropy: 2.25, GradNorm: 1.5, LR: 0.25, AcceptLength: 1.75, Hits: []float32{0.5, 0.25}})
	draft.Accepted([]float32{0.5, 0.125})
	draft.Evaluated([]float64{0.75})
	draft.Handoff(0.0003)
	draft.Work("train", 0.5)
	draft.Step(0.25)
	draft.Turn("agree", 0.5)
	draft.Redelivered("ps.train")
	draft.HandedBack("ps.train")
	draft.Rejected("dead")
	batch := New("r", "batch", "batch")
	batch.Bucket(schema.BucketState{Bucket: "b96", Credit: 4, Floor: 2, Ceiling: 6}, 3, 1)
	who := `process="draft-1",run="r",stage="draft"`
	for _, c := range []struct{ in, want string }{
		{scrape(t, draft), `penstock_batches_total{` + who + `} 7
penstock_tokens_total{` + who + `} 900
penstock_slots{` + who + `} 3
penstock_slots_used{` + who + `} 2
penstock_busy_seconds_total{process="draft-1",run="r",stage="draft",work="compute"} 2.5
penstock_idle_seconds_total{cause="no input",process="draft-1",run="r",stage="draft"} 0.5
penstock_window{` + who + `} 5
penstock_loss{` + who + `} 3.5
penstock_cross_entropy{` + who + `} 2.25
penstock_gradient_norm{` + who + `} 1.5
penstock_learning_rate{` + who + `} 0.25
penstock_accept_length{` + who + `} 1.75
penstock_hits{position="1",process="draft-1",run="r",stage="draft"} 0.5
penstock_hits{position="2",process="draft-1",run="r",stage="draft"} 0.25
penstock_acceptance{position="2",process="draft-1",run="r",stage="draft"} 0.125
penstock_eval_acceptance{position="1",process="draft-1",run="r",stage="draft"} 0.75
penstock_handoff_seconds_bucket{` + who + `,le="0.0004"} 1
penstock_work_seconds_sum{process="draft-1",run="r",stage="draft",work="train"} 0.5
penstock_step_seconds_count{` + who + `} 1
penstock_turn_seconds_sum{part="agree",process="draft-1",run="r",stage="draft"} 0.5
penstock_redeliveries_total{edge="ps.train",process="draft-1",run="r",stage="draft"} 1
penstock_handed_back_total{edge="ps.train",process="draft-1",run="r",stage="draft"} 1
penstock_rejects_total{process="draft-1",run="r",stage="draft",verdict="dead"} 1
penstock_rejects_total{process="draft-1",run="r",stage="draft",verdict="suspect"} 0`},
		{scrape(t, New("r", "pack", "pack-1")), `penstock_redeliveries_total{edge="ps.pack",process="pack-1",run="r",stage="pack"} 0`},
		{scrape(t, batch), `penstock_bucket_stock{bucket="b96",process="batch",run="r",stage="batch"} 1
penstock_bucket_open{bucket="b96",process="batch",run="r",stage="batch"} 3
penstock_bucket_credit{bucket="b96",process="batch",run="r",stage="batch"} 4`},
	} {
		for line := range strings.Lines(c.want) {
			if !strings.Contains(c.in, strings.TrimSpace(line)+"\n") {
				t.Errorf("no line %s", line)
			}
		}
		if t.Failed() {
			t.Log(c.in)
		}
	}
}

func TestPortInUse(t *testing.T) {
	s := New("r", "up", "up")
	first, err := s.Serve("127.0.0.1", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	var port int
	for _, d := range first.URL()[strings.LastIndexByte(first.URL(), ':')+1:] {
		port = 10*port + int(d-'0')
	}
	if _, err := s.Serve("127.0.0.1", port, nil); err == nil || !strings.Contains(err.Error(), "metrics.port") {
		t.Errorf("a port in use gives %v", err)
	}
}
