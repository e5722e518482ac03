package broker

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func TestConsumerThatHasStopped(t *testing.T) {
	look := func(queued uint64, waiting, open, limit int, delivered uint64) *jetstream.ConsumerInfo {
		return &jetstream.ConsumerInfo{Config: jetstream.ConsumerConfig{MaxAckPending: limit}, NumPending: queued, NumWaiting: waiting,
			NumAckPending: open, Delivered: jetstream.SequenceInfo{Consumer: delivered}}
	}
	for _, c := range []struct {
		name string
		then *jetstream.ConsumerInfo // the third look
		want bool
	}{
		{"records, pulls and nothing delivered", look(3, 1, 0, -1, 7), true},
		{"within its limit", look(3, 1, 1, 2, 7), true},
		{"nothing queued", look(0, 1, 0, -1, 7), false},
		{"nobody waits", look(3, 0, 0, -1, 7), false},
		{"at its limit", look(3, 1, 2, 2, 7), false},
		{"delivered since", look(3, 1, 0, -1, 8), false},
	} {
		var p pulse
		still := look(3, 1, 0, -1, 7)
		if p.beat(still) || p.beat(still) || p.beat(still) { // the first look only learns what was delivered
			t.Fatal("stopped before three looks after the first")
		}
		if got := p.beat(c.then); got != c.want {
			t.Errorf("%s: stopped %v", c.name, got)
		}
	}
}
