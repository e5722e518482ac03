// Package modeltest explores the dispatch protocol: every order in which the processes of a small system can act, with
// crashes, and with messages that are lost, doubled or overtaken. It decides with the functions of package policy, the
// same that the stages call, and looks for what must never be: a state from which the run cannot complete and give
// everything back, a slot that nobody will free, records of the past that keep new ones out, data that is overwritten while
// its reader publishes, two ranks at work on one batch, a batch in two sums.
//
// A [System] is what runs and what may go wrong, a [State] is everything that the processes and the broker know, a step
// is one thing that one of them does without interruption. [Explore] visits every state; [Walk] follows one path at
// random, for systems too large to exhaust. A [Rule] can be taken out of force, and then the explorer must find why it
// is there.
//
// # What stands for what
//
// A slot's generation is a counter in the product. Here a reference knows whether it still names the slot's present use
// (fresh), an earlier one (stale), or one of an owner that is dead (gone); counters would only make equal states differ.
// A ledger sequence is likewise the knowledge whether a claim is still its subject's last record. A message is queued,
// or in the hands of a process, and a crash puts it back: AckWait may end at any later time. Queues of hops keep no
// order, so one message overtakes another freely; roots of one bucket come in the order in which they were stored. A
// publish that does not arrive is one that has not happened yet, or never does because its sender dies. A broker that loses
// what it has acknowledged has an older store, which is a new generation. Single hops and releases may
// be lost nevertheless: their slot's owner hands on again what the open window waits for.
//
// A rank alone sums, steps and computes on while its records are on their way. Nobody can tell: until they are stored
// nothing comes of it, and if they are refused it is gone. So it sums here when its addition is stored, and steps when its
// commit is; what shows is that it claims the next window's batches, and starts again when a batch is dead that it has summed.
//
// The table counterparts, beside the test of it, names for each step the code of the stages that does it; the test
// compares the rules that both ask.
//
// The default run exhausts over four million states of small systems; with -modeltest.long it takes larger ones and
// walks further.
package modeltest
