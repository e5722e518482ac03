// Package policy holds the rules by which batches are chosen, slots are reserved, windows are published and
// committed. Every rule is a pure function of state: the stages, the model test and the simulator call the same code.
//
// Credit counts open roots and slots count memory; they are unrelated. A window is one optimizer step.
package policy
