package stages_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/broker"
	"penstock/schema"
	"penstock/stages/stagestest"
)

// edge is a way that records take: who sends on which subjects, who receives, and what the receiver sends when it is done.
type edge struct {
	name             string
	sender, subject  string
	receiver, result string
	settler, ack     string // who acknowledges, and where
}

var edges = []edge{
	{"fwd", "batch", "ps.fwd.", "target-1", "ps.pack.", "draft-1", "$JS.ACK.PS_FWD."},
	{"pack", "target-1", "ps.pack.", "pack-1", "ps.train.", "pack-1", "$JS.ACK.PS_PACK."},
	{"train", "pack-1", "ps.train.", "draft-1", "ps.ledger.", "draft-1", "$JS.ACK.PS_TRAIN."},
	{"rel", "pack-1", "ps.rel.target-1", "target-1", "$JS.ACK.PS_REL.", "target-1", "$JS.ACK.PS_REL."},
	{"ledger", "draft-1", "ps.ledger.", "draft-1", "ps.ledger.", "draft-1", "$JS.ACK.PS_FWD."},
}

// faults of an edge, each by its name.
var faults = []struct {
	name  string
	plant func(*script, edge)
}{
	{"message lost", func(s *script, e edge) { s.on(e.sender, broker.OpPublish, e.subject, 2, broker.LoseRequest) }},
	{"message doubled", func(s *script, e edge) { s.on(e.sender, broker.OpPublish, e.subject, 2, broker.Twice) }},
	{"message delayed", func(s *script, e edge) { s.hold(e.sender, e.subject, func(string) bool { return true }, 40) }},
	{"message reordered", func(s *script, e edge) {
		s.hold(e.sender, e.subject, func(other string) bool { return strings.HasPrefix(other, e.subject) }, 1)
	}},
	{"receipt lost", func(s *script, e edge) { s.on(e.sender, broker.OpPublish, e.subject, 2, broker.LoseReply) }},
	{"acknowledgement lost", func(s *script, e edge) { s.on(e.settler, broker.OpAck, e.ack, 2, broker.LoseRequest) }},
	{"acknowledgement's confirmation lost", func(s *script, e edge) { s.on(e.settler, broker.OpAck, e.ack, 2, broker.LoseReply) }},
	{"receiver dies before work", func(s *script, e edge) {
		if e.name == "ledger" { // it is read by all; whoever writes it claims before it works
			s.on(e.receiver, broker.OpPublish, e.subject, 2, broker.Cut)
			return
		}
		s.on(e.receiver, broker.OpDeliver, e.subject, 2, broker.Cut)
	}},
	{"receiver dies after work, before it publishes", func(s *script, e edge) {
		s.on(e.receiver, op(e.result), e.result, 7, broker.Cut)
	}},
	{"receiver dies after it published, before it acknowledges", func(s *script, e edge) {
		s.on(e.receiver, op(e.result), e.result, 7, broker.Pass)
		s.cutNext = true
	}},
	{"sender dies", func(s *script, e edge) { s.on(e.sender, broker.OpPublish, e.subject, 4, broker.Cut) }},
}

func op(subject string) broker.Op {
	if strings.HasPrefix(subject, "$JS.ACK.") {
		return broker.OpAck
	}
	return broker.OpPublish
}

// script is one fault: what becomes of the nth operation of a kind that an instance does on subjects with a prefix.
type script struct {
	mu      sync.Mutex
	who     string
	op      broker.Op
	prefix  string
	left    int
	then    broker.Outcome
	cutNext bool // cut the instance at its next operation
	armed   bool
	done    bool

	count   func(subject string) bool // a held operation goes on after so many of these
	needed  int
	release chan struct{}
}

func (s *script) on(who string, op broker.Op, prefix string, nth int, then broker.Outcome) {
	s.who, s.op, s.prefix, s.left, s.then = who, op, prefix, nth, then
}

func (s *script) hold(who, prefix string, count func(string) bool, needed int) {
	s.on(who, broker.OpPublish, prefix, 2, broker.Pass)
	s.count, s.needed, s.release = count, needed, make(chan struct{})
}

// heldAtMost bounds a delay: what a held message is waited for with may be all that there is.
const heldAtMost = 100 * time.Millisecond

func (s *script) fault(who string, op broker.Op, subject string) broker.Outcome {
	if op == broker.OpProgress {
		return broker.Pass
	}
	then, hold := s.next(who, op, subject)
	if hold {
		late := time.NewTimer(heldAtMost)
		defer late.Stop()
		select {
		case <-s.release:
		case <-late.C:
		}
	}
	return then
}

func (s *script) next(who string, op broker.Op, subject string) (then broker.Outcome, hold bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done && s.release != nil && s.needed > 0 && s.count(subject) {
		if s.needed--; s.needed == 0 {
			close(s.release)
		}
	}
	if s.armed && who == s.who {
		s.armed = false
		return broker.Cut, false
	}
	if s.done || who != s.who || op != s.op || !strings.HasPrefix(subject, s.prefix) {
		return broker.Pass, false
	}
	if s.left--; s.left > 0 {
		return broker.Pass, false
	}
	s.done, s.armed = true, s.cutNext
	return s.then, s.release != nil
}

// TestNamedFaults has one thing go wrong in each run and expects the ledger and, to the bit, the weights of the run in
// which nothing did.
func TestNamedFaults(t *testing.T) {
	config := stagestest.Config(t, 24, func(c *schema.Config) {
		c.Deterministic = true
		c.Target.Instances = 1
		c.Broker.AckWait = "1s"
		c.Window.Batches = 4
		c.Data.Store = t.TempDir()
	})
	calm := stagestest.New(t, config)
	if err := calm.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	want, wantCount := weights(t, calm), count(t, calm)
	if wantCount.Documents != 24 {
		t.Fatalf("undisturbed ledger: %+v", wantCount)
	}
	for _, e := range edges {
		for _, f := range faults {
			t.Run(e.name+"/"+f.name, func(t *testing.T) {
				p := stagestest.New(t, config)
				s := &script{}
				f.plant(s, e)
				p.Fault = s.fault
				if err := p.Run(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				if !s.done || s.armed {
					t.Fatal("the fault did not happen")
				}
				if got := count(t, p); got != wantCount {
					t.Errorf("ledger: %+v, undisturbed %+v", got, wantCount)
				}
				if !bytes.Equal(weights(t, p), want) {
					t.Error("other weights than undisturbed")
				}
			})
		}
	}
}
