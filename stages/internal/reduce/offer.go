package reduce

import (
	"bytes"
	"context"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"penstock/kernels"
	"penstock/kernels/mem"
)

// offer is what a member that has brought its part tells the others.
type offer struct {
	Peer kernels.Peer
	ID   []byte // of the communicator it is in, or invites to
	Note []byte
	// Whole says that the part is what the member has let be summed before.
	Whole bool
}

// tell publishes this member's offer at a stage.
func (c *Collective) tell(r Round, at stage) error {
	b, err := msgpack.Marshal(c.offer())
	if err != nil {
		return err
	}
	return c.publish(0, r.word(at, c.ahead.count()), b)
}

func (c *Collective) offer() offer { return offer{c.peer, c.id, c.notes[0], c.ahead.whole()} }

// offers waits for what every member offers, and returns the slabs of the others.
func (c *Collective) offers(ctx context.Context, r Round, parts []Part) (offers []offer, views []*mem.View, err error) {
	for _, p := range parts {
		if p.Member == c.self {
			offers = append(offers, c.offer())
			continue
		}
		o, v, err := c.take(ctx, r, p, laid, brought, invited, summed)
		if err != nil {
			return nil, nil, err
		}
		if c.comm == nil { // an invitation of this round
			o.ID = nil
		}
		offers, views = append(offers, o), append(views, v)
	}
	return offers, views, nil
}

// take waits until a member's part is at one of some stages, and reads its offer, which it has at any but laid.
func (c *Collective) take(ctx context.Context, r Round, p Part, stages ...stage) (o offer, v *mem.View, err error) {
	for {
		v, w, err := c.await(ctx, r, p, stages...)
		if err != nil {
			return o, nil, err
		}
		if at, _ := w.at(r); at == laid {
			return o, nil, errLaid
		}
		b, err := c.read(v, w, p.Member, 0, func(kernels.Tensor) error { return nil })
		if over(err) { // it went on to another stage, or has ended
			continue
		}
		if err == nil {
			err = msgpack.Unmarshal(b, &o)
		}
		if err != nil {
			return o, nil, fmt.Errorf("offer of %s: %w", p.Member.Rank, err)
		}
		return o, v, nil
	}
}

// fit says why members that make these offers, the same to all of them, cannot be in one communicator.
func fit(offers []offer) error {
	for i, o := range offers {
		for _, other := range offers[:i] {
			switch {
			case o.Peer.Library != other.Peer.Library:
				return fmt.Errorf("%w: %s and %s", errUnfit, other.Peer.Library, o.Peer.Library)
			case o.Peer.Processor == other.Peer.Processor:
				return fmt.Errorf("%w: two are on one processor", errUnfit)
			case !bytes.Equal(o.ID, other.ID):
				return fmt.Errorf("%w: they are in different communicators", errUnfit)
			}
		}
	}
	return nil
}
