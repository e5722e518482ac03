// Package scenario describes machines and data that need not be there: how many devices of which speed, how long the
// documents are, what breaks when. The simulator runs scenarios in virtual time, and the sleeping device takes its
// times from them.
package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"penstock/broker/policy"
	"penstock/schema"
)

// Scenario is one file. Times are in seconds, rates in units a second.
type Scenario struct {
	Name  string `yaml:"-"`
	Seed  uint64 `yaml:"seed"`
	Hosts int    `yaml:"hosts"` // the instances of each stage are spread evenly over them; default 1
	GPUs  int    `yaml:"gpus"`  // 0: one for each instance of target and draft; fewer are shared in turn

	Lengths Lengths    `yaml:"lengths"`
	Batch   int        `yaml:"batch"`   // tokens
	Window  Window     `yaml:"window"`  // of batches
	Epochs  int        `yaml:"epochs"`  // default 1
	Anchors int        `yaml:"anchors"` // at most, per document
	Block   int        `yaml:"block"`   // slots of an anchor
	Row     int        `yaml:"row"`     // bytes of captures per token
	Target  Stage      `yaml:"target"`
	Pack    PackStage  `yaml:"pack"`
	Draft   DraftStage `yaml:"draft"`
	Staged  Staged     `yaml:"staged"`
	Slow    []Slow     `yaml:"slow"`
	Crashes []Crash    `yaml:"crashes"`
	Look    float64    `yaml:"look"`    // between two looks at the pull limits; default 0.5
	Handoff float64    `yaml:"handoff"` // from the end of a stage's work on a batch to where the next stage may begin
}

// Window sizes optimizer steps.
type Window struct {
	Batches   int `yaml:"batches"`
	Lookahead int `yaml:"lookahead"`
}

// Stage is the instances of one stage and what a batch costs them.
type Stage struct {
	Instances int  `yaml:"instances"`
	Slots     int  `yaml:"slots"`
	Cost      Cost `yaml:"cost"`
}

// Cost is the time of a batch: Token for each token, Square for each length², Slot for each slot of the drafter. With
// Batch set these are relative, and scaled so that a full batch takes Batch on average over the plan. Noise is uniform,
// ±Noise as a share.
type Cost struct {
	Token  float64 `yaml:"token"`
	Square float64 `yaml:"square"`
	Slot   float64 `yaml:"slot"`
	Batch  float64 `yaml:"batch"`
	Noise  float64 `yaml:"noise"`
}

// Rates are the cost's rates, as policies know them.
func (c Cost) Rates() policy.Rates {
	return policy.Rates{Token: c.Token, Square: c.Square, Slot: c.Slot}
}

// PackStage pulls captures to the drafters' devices: at so many bytes a second, twice where they are staged in host
// memory, or in a time given by its cost. Captures of another host come over the network, whichever is slower.
type PackStage struct {
	Stage   `yaml:",inline"`
	Copy    float64 `yaml:"copy"`    // bytes a second within a host; 0: the cost says it all
	Network float64 `yaml:"network"` // bytes a second between hosts; 0: no limit
	Host    bool    `yaml:"host"`    // captures are staged in host memory
}

// DraftStage is the ranks.
type DraftStage struct {
	Stage     `yaml:",inline"`
	GPUs      int     `yaml:"gpus"`      // of one rank; default 1
	Optimizer float64 `yaml:"optimizer"` // seconds of the step behind a window, on all ranks
}

// Staged is what the policy fifo-staged needs to know: one queue in host memory, packing on the target's device, and a
// fetch with concatenation before each step.
type Staged struct {
	Queue int        `yaml:"queue"` // batches
	Pack  float64    `yaml:"pack"`  // seconds a batch
	Fetch [2]float64 `yaml:"fetch"` // seconds a batch, uniform between the two
}

// Slow makes an instance slower by a factor in a span of time; To 0 is the end of the run.
type Slow struct {
	Instance string  `yaml:"instance"`
	Factor   float64 `yaml:"factor"`
	From     float64 `yaml:"from"`
	To       float64 `yaml:"to"`
}

// Crash ends an instance at a time and starts its successor after Down.
type Crash struct {
	Instance string  `yaml:"instance"`
	At       float64 `yaml:"at"`
	Down     float64 `yaml:"down"`
}

// Load reads and checks a scenario file. A key it does not know is an error, with its line.
func Load(path string) (*Scenario, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	s, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", path, err)
	}
	s.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	return s, nil
}

// Parse reads and checks a scenario.
func Parse(text []byte) (*Scenario, error) {
	s := &Scenario{Hosts: 1, Epochs: 1, Look: 0.5}
	s.Draft.GPUs = 1
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(s); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return s, s.check()
}

// Plan is the part of a run's configuration that decides its plan.
func (s *Scenario) Plan() *schema.Config {
	return &schema.Config{
		Seed: s.Seed, Data: schema.DataConfig{MaxLength: s.Lengths.longest(), Buckets: s.Lengths.edges()},
		Batch: schema.BatchConfig{Tokens: s.Batch}, Window: schema.WindowConfig(s.Window),
		Train: schema.TrainConfig{Epochs: s.Epochs},
	}
}

// Work counts one document of a length into w.
func (s *Scenario) Work(w *policy.Work, length int) { w.Add(length, min(s.Anchors, length)*s.Block) }
