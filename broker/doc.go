// Package broker links the stages: typed edges over NATS JetStream, the ledger, the board, generations and credit.
// It is the only package that imports nats.go's jetstream and nats-server. Records are those of package schema:
// metadata and handles, never tensors.
//
//	stream     subjects            what                                        kept until
//	PS_FWD     ps.fwd.<bucket>     schema.Root, from the builder               its window has committed
//	PS_PACK    ps.pack.<bucket>    schema.Hop, from a target                   the packer has copied it
//	PS_TRAIN   ps.train.<bucket>   schema.Hop, from a packer                   its gradient is added
//	PS_REL     ps.rel.<pool>       schema.Release, to the owner of a pool      the owner has seen it
//	PS_LEDGER  ps.ledger.>         claims, additions, commits, generations     for ever
//	PS_BOARD   ps.board.<key>      hints: plan, pools, buckets, stages         the next of its key
//
// The first four are work queues: a record is in one until it is acknowledged. Their consumers belong to one
// generation each, but for those of releases, which belong to the pool:
//
//	fwd-<gen>-<bucket>   the roots of a bucket; limit = the bucket's credit
//	pack-<gen>           the hops of all buckets to the packers; no limit
//	train-<gen>          the hops of all buckets to the drafter's ranks; no limit
//	rel-<pool>           the releases of one pool to its owner; no limit
//
// # Delivery
//
// A record is stored before Publish returns, and survives a kill of the server from then on (a power failure too
// with sync always). It is delivered at least once: again when its holder hands it back, or is silent for AckWait. A
// redelivery may look like a first delivery after a restart of the server. So every receiver is idempotent, and who
// did the work is for the ledger to say, not for an acknowledgement: the server takes those of a holder that was
// given up, and confirms those of a record that is gone.
//
// An acknowledgement is confirmed by the server before Ack returns. If it is not, by the end of its context, it may
// or may not have happened; repeating it does no harm. Any process can settle any record by its acknowledge subject.
//
// A record that does not decode is terminated and reported to Options.OnError: it never comes back.
//
// # Order
//
// The first deliveries of one bucket come in the order in which one publisher put them there. Nothing is promised
// across buckets, across publishers, or for redeliveries. The ledger is read in the order of the stream, without gaps
// or repetition, through restarts of the server; so is the board, but for hints that the next of their key replaced.
//
// # Back-pressure
//
// A bucket's credit bounds the roots that are delivered and not acknowledged. It can be moved while they are. At the
// limit a pull finds nothing; the roots stay in the queue, and the builder, which publishes a bounded number of
// windows ahead, waits. Behind that rule stands a limit per subject: to be stopped by it, as [ErrFull], is legal for a
// publisher that waits, and a sign that its own rule is broken.
//
// Hops have no limit, because a limit would deadlock: a hop that may not be worked on yet is held by its receiver, and
// the one that everybody waits for must still get through. Slots bound them.
//
// # Who is to blame
//
// A bucket that fills is the fault of whoever holds its roots: see the consumer's open count. A root that is delivered
// again and again is the fault of a holder that neither marks progress nor dies. A pull that finds nothing, when
// records are queued and credit is left, is the broker's fault, and a bug here. A Follow or Watch callback that blocks
// delays only itself.
//
// # Failure
//
// Every call takes a context and tries again, through lost connections and restarts of the server, until it succeeds,
// its context ends or the answer is final. What is retried is reported once to Options.OnError. [ErrGone] is the one
// error that a receiver must expect: its generation is over, or not open yet, and the ledger says which. [ErrStore] ends
// a reader of the ledger when the broker comes back with an empty or an older store: then a new generation has to open.
//
// # Who may do what
//
// The embedded server lets in the holders of its keys, one a role, and lets each do what its stage needs: see permissions.
// It listens on loopback, or with a certificate. A refusal ends the call that it is about with [ErrDenied].
package broker
