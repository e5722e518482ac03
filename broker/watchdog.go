package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// stillFor is how many looks in a row find a consumer still before it is reset.
const stillFor = 3

// pulse is what a watchdog remembers of a consumer.
type pulse struct {
	delivered uint64
	still     int
}

// beat takes a look, and reports whether the consumer has stopped: records are queued, somebody waits for them, the limit
// leaves room, and for several looks nothing has been delivered.
func (p *pulse) beat(info *jetstream.ConsumerInfo) (stopped bool) {
	room := info.Config.MaxAckPending < 0 || info.NumAckPending < info.Config.MaxAckPending
	if info.NumPending == 0 || info.NumWaiting == 0 || !room || info.Delivered.Consumer != p.delivered {
		*p = pulse{delivered: info.Delivered.Consumer}
		return false
	}
	if p.still++; p.still < stillFor {
		return false
	}
	p.still = 0
	return true
}

// Watchdog looks after the consumers of a generation until ctx ends, and resets one that has stopped delivering. One that
// is gone went with its generation.
func (c *Conn) Watchdog(ctx context.Context, gen uint32, buckets []string, every time.Duration) error {
	type watched struct{ stream, name string }
	list := []watched{{Pack.Stream, hopName(Pack, gen)}, {Train.Stream, hopName(Train, gen)}}
	for _, b := range buckets {
		list = append(list, watched{Fwd.Stream, fwdName(gen, b)})
	}
	pulses := make([]pulse, len(list))
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for i, w := range list {
			info, err := c.consumerInfo(ctx, w.stream, w.name)
			if err == nil && pulses[i].beat(info) {
				c.opts.OnError(fmt.Errorf("consumer %s has %d records and %d pulls and delivers nothing: it is reset", w.name, info.NumPending, info.NumWaiting))
				err = c.reset(ctx, w.stream, w.name)
			}
			if errors.Is(err, ErrGone) {
				continue
			}
			if err != nil {
				return err
			}
		}
	}
}
