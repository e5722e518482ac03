package draft

import (
	"errors"
	"testing"

	"penstock/broker"
	"penstock/schema"
	"penstock/stages/internal/model"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/worker"
)

// What was let be summed is the part as long as just its batches are in that, and the gradient that it has is not refused.
func TestHeadStart(t *testing.T) {
	tr := &trainer{w: &worker.Worker{Env: &runtime.Env{}}, scratch: make(chan *model.Params, scratches)}
	of := func(index uint32) scratch {
		return scratch{item: item{hop: &broker.Delivery[schema.Hop]{Record: schema.Hop{Batch: schema.Batch{Index: index}}}}}
	}
	last := of(3)
	refuse := func(index uint32) func(o *window) {
		return func(o *window) {
			s := of(index)
			s.err = errors.New("refused")
			o.waiting++
			tr.add(o, s)
		}
	}
	add := func(index uint32) func(o *window) { return func(o *window) { o.summed[index] = true } }
	for _, c := range []struct {
		name  string
		then  []func(o *window)
		alone bool // without a gradient
		want  bool
	}{
		{"just that", []func(*window){add(3)}, false, true},
		{"its batch is lost", nil, false, false},
		{"one more", []func(*window){add(3), add(4)}, false, false},
		{"one is refused that was not in it", []func(*window){refuse(4), add(3)}, false, true},
		{"its batch is refused, and another comes", []func(*window){refuse(3), add(4)}, false, false},
		{"its batch is refused, and comes again", []func(*window){refuse(3), add(3)}, false, false},
		{"nothing more", nil, true, true},
		{"what was not to come", []func(*window){add(3)}, true, false},
		{"a refusal of what was not to come", []func(*window){refuse(3)}, true, true},
	} {
		o := &window{summed: map[uint32]bool{1: true, 2: true}, head: &headStart{batches: 3, last: &last}}
		if c.alone {
			o.head = &headStart{batches: 2}
		}
		for _, f := range c.then {
			f(o)
		}
		if o.head.is(o) != c.want {
			t.Errorf("%s: the part is what was let be summed: %v", c.name, !c.want)
		}
		for len(tr.scratch) > 0 {
			<-tr.scratch
		}
	}
}
