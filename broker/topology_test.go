package broker

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"penstock/schema"
)

func TestDocNamesEveryStream(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range streams {
		prefix := strings.TrimRight(s.Subjects[0], "*>")
		if !strings.Contains(string(doc), "//\t"+s.Name) || !strings.Contains(string(doc), " "+prefix) {
			t.Errorf("doc.go does not list %s with %s", s.Name, prefix)
		}
	}
}

func TestStreams(t *testing.T) {
	byName := map[string]jetstream.StreamConfig{}
	for _, s := range streams {
		byName[s.Name] = s
		if s.Storage != jetstream.FileStorage || s.MaxMsgSize < schema.MaxRecord || s.MaxAge != 0 || s.MaxBytes != 0 {
			t.Errorf("%s: %+v", s.Name, s)
		}
	}
	for _, e := range []struct{ stream, subject string }{
		{Fwd.Stream, Fwd.Subject("*")}, {Pack.Stream, Pack.Subject("*")},
		{Train.Stream, Train.Subject("*")}, {Rel.Stream, Rel.Subject("*")},
	} {
		s := byName[e.stream]
		if s.Retention != jetstream.WorkQueuePolicy || len(s.Subjects) != 1 || s.Subjects[0] != e.subject {
			t.Errorf("%s carries %v, not %s as a work queue", e.stream, s.Subjects, e.subject)
		}
		// With one of the three missing the oldest record would vanish instead.
		if s.Discard != jetstream.DiscardNew || !s.DiscardNewPerSubject || s.MaxMsgsPerSubject < 1 {
			t.Errorf("%s discards what it holds: %+v", e.stream, s)
		}
	}
	if l := byName[ledgerStream]; !l.DenyDelete || !l.DenyPurge || l.MaxMsgsPerSubject != 0 || l.Retention != jetstream.LimitsPolicy {
		t.Errorf("the ledger can lose records: %+v", l)
	}
}

func TestConsumers(t *testing.T) {
	fwd := fwdConsumer(12, "b512", 7, time.Second)
	hop := hopConsumer(Pack, 12, time.Second)
	if fwd.Durable != "fwd-12-b512" || fwd.FilterSubject != "ps.fwd.b512" || fwd.MaxAckPending != 7 {
		t.Errorf("roots: %+v", fwd)
	}
	if hop.Durable != "pack-12" || hop.FilterSubject != "ps.pack.*" || hop.MaxAckPending != -1 {
		t.Errorf("hops: %+v", hop)
	}
	rel := relConsumer("t0", time.Second)
	if rel.Durable != "rel-t0" || rel.FilterSubject != "ps.rel.t0" || rel.MaxRequestBatch != relBatch {
		t.Errorf("releases: %+v", rel)
	}
	if fwd.MaxRequestBatch != 1 || hop.MaxRequestBatch != 1 {
		t.Errorf("work is to be asked for one at a time: %+v, %+v", fwd, hop)
	}
	for _, c := range []jetstream.ConsumerConfig{fwd, hop, rel} {
		if c.AckPolicy != jetstream.AckExplicitPolicy || c.MaxDeliver != -1 || c.AckWait != time.Second {
			t.Errorf("%s: %+v", c.Durable, c)
		}
	}
	for name, want := range map[string]uint32{
		fwd.Durable: 12, hop.Durable: 12, "fwd-3-b-7": 3, "train-4294967295": 1<<32 - 1, "train-4294967296": 0, "stray": 0, "": 0,
	} {
		if got := consumerGen(name); got != want {
			t.Errorf("generation of %q: %d, want %d", name, got, want)
		}
	}
}

func TestTokens(t *testing.T) {
	for token, ok := range map[string]bool{
		"b512": true, "target-0": true, "A_z": true, strings.Repeat("x", 64): true,
		"": false, "a.b": false, "*": false, ">": false, "a b": false, "a\n": false, "ä": false, strings.Repeat("x", 65): false,
	} {
		if err := CheckToken("bucket", token); (err == nil) != ok {
			t.Errorf("%q: %v", token, err)
		}
	}
}
