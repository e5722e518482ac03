package model

import "fmt"

// Rehearse has the device allocate what steps on rows of these shapes take, all at once, and makes one on the row that takes
// the most, so that the steps behind it allocate nothing. Weights stay as they are.
func (d *Drafter) Rehearse(shapes []Shape) error {
	var most int64
	var largest Shape
	for _, s := range shapes {
		bytes, _, _, err := StepNeed(d.dev.Half(), d.Config, d.Slots, s)
		if err != nil {
			return err
		}
		if bytes > most {
			most, largest = bytes, s
		}
	}
	if most == 0 {
		return nil
	}
	d.arena.Reserve(most)
	features := d.dev.AllocHalf(largest.Tokens(), len(d.Config.Taps)*d.Config.TargetHiddenSize)
	grads := d.Weights.Like()
	defer func() {
		d.dev.Free(features)
		d.dev.Free(grads.Flat)
	}()
	if _, err := d.Step(d.made(largest, features), Loss{Kind: DFlash}, grads); err != nil {
		return fmt.Errorf("rehearse a step of %d tokens: %w", largest.Tokens(), err)
	}
	return nil
}

// Rehearse is [Drafter.Rehearse] for forwards to the last of taps.
func (m *Target) Rehearse(shapes []Shape, taps []int) error {
	var largest Shape
	for _, s := range shapes {
		if s.Tokens() > largest.Tokens() {
			largest = s
		}
	}
	if largest.Tokens() == 0 {
		return nil
	}
	out := m.dev.AllocHalf(len(taps)*largest.Tokens(), m.geo.HiddenSize)
	defer m.dev.Free(out)
	if err := m.forwardOn(largest, taps, out); err != nil {
		return fmt.Errorf("rehearse a forward of %d tokens: %w", largest.Tokens(), err)
	}
	m.arena.Reset()
	if err := m.dev.Sync(); err != nil {
		return fmt.Errorf("rehearse a forward of %d tokens: %w", largest.Tokens(), err)
	}
	return nil
}
