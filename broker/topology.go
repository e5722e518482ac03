package broker

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"penstock/schema"
)

// Edge is a work queue between stages: one stream, one kind of record, one subject per token.
type Edge[T schema.Record] struct{ Stream, Prefix string }

// Subject returns the subject of a token: a bucket, or a pool for releases.
func (e Edge[T]) Subject(token string) string { return e.Prefix + "." + token }

// The work queues. A record is on exactly one of them until it is acknowledged.
var (
	Fwd   = Edge[schema.Root]{"PS_FWD", "ps.fwd"}
	Pack  = Edge[schema.Hop]{"PS_PACK", "ps.pack"}
	Train = Edge[schema.Hop]{"PS_TRAIN", "ps.train"}
	Rel   = Edge[schema.Release]{"PS_REL", "ps.rel"}
)

const (
	ledgerStream = "PS_LEDGER"
	boardStream  = "PS_BOARD"
	boardPrefix  = "ps.board."

	// tripwire bounds a subject of a work queue in records. Credit and slots bound it far below; reaching it is a bug.
	tripwire = 1 << 16
	// maxMessage leaves room for headers, which the server counts too: a record alone is held to MaxRecord by its encoder.
	maxMessage = schema.MaxRecord + 512
	// dedup is how long a stream remembers message ids; a publisher retries for less.
	dedup = 2 * time.Minute
)

// streams is every stream. The limit per subject of PS_FWD is set when a generation opens.
var streams = []jetstream.StreamConfig{
	workQueue("PS_FWD", "ps.fwd.*", "roots: one planned batch each, per bucket"),
	workQueue("PS_PACK", "ps.pack.*", "captures in a target's slot, per bucket"),
	workQueue("PS_TRAIN", "ps.train.*", "features in a packer's slot, per bucket"),
	workQueue("PS_REL", "ps.rel.*", "slots given back, per pool"),
	{
		Name: ledgerStream, Subjects: []string{"ps.ledger.>"}, Description: "what was claimed, added, rejected and committed",
		Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
		MaxMsgSize: maxMessage, Replicas: 1, Duplicates: dedup, AllowDirect: true,
		DenyDelete: true, DenyPurge: true, // the truth is only ever appended to
	},
	{
		Name: boardStream, Subjects: []string{boardPrefix + ">"}, Description: "hints, the last of each key",
		Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardOld,
		MaxMsgsPerSubject: 1, MaxMsgSize: maxMessage, Replicas: 1, Duplicates: dedup, AllowDirect: true,
	},
}

// workQueue refuses a record that is one too many on its subject: without both discard settings the oldest would vanish.
func workQueue(name, subjects, what string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Subjects: []string{subjects}, Description: what,
		Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
		Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, MaxMsgsPerSubject: tripwire,
		MaxMsgSize: maxMessage, Replicas: 1, Duplicates: dedup, AllowDirect: true,
	}
}

// durable is what all consumers share. MaxDeliver is unlimited because an exhausted message would stay in the
// queue for ever; AckWait is a backstop behind the marking of work in progress.
func durable(name, filter string, limit int, ackWait time.Duration) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: name, FilterSubject: filter,
		AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy,
		AckWait: ackWait, MaxAckPending: limit, MaxDeliver: -1, MaxRequestBatch: 1,
	}
}

// fwdConsumer hands out the roots of one bucket. Its limit is the credit: the most roots that may be open.
func fwdConsumer(gen uint32, bucket string, credit int, ackWait time.Duration) jetstream.ConsumerConfig {
	return durable(fwdName(gen, bucket), Fwd.Subject(bucket), credit, ackWait)
}

// hopConsumer hands out hops of all buckets. It has no limit, which is at least all slots of all pools however many
// instances join: a hop that may not be worked on yet is held, and must not keep the one that is waited for away.
func hopConsumer[T schema.Record](e Edge[T], gen uint32, ackWait time.Duration) jetstream.ConsumerConfig {
	return durable(hopName(e, gen), e.Subject("*"), -1, ackWait)
}

// relBatch is how many releases an owner asks for at once: nobody else wants them.
const relBatch = 64

// relConsumer hands a pool's releases to its owner. It outlives generations: it belongs to the pool.
func relConsumer(pool string, ackWait time.Duration) jetstream.ConsumerConfig {
	c := durable("rel-"+pool, Rel.Subject(pool), -1, ackWait)
	c.MaxRequestBatch = relBatch
	return c
}

func fwdName(gen uint32, bucket string) string { return fmt.Sprintf("fwd-%d-%s", gen, bucket) }

func hopName[T schema.Record](e Edge[T], gen uint32) string {
	return fmt.Sprintf("%s-%d", strings.TrimPrefix(e.Prefix, "ps."), gen)
}

// consumerGen reads the generation out of the name of a consumer of PS_FWD, PS_PACK or PS_TRAIN; 0 if it has none.
func consumerGen(name string) uint32 {
	_, rest, _ := strings.Cut(name, "-")
	digits, _, _ := strings.Cut(rest, "-")
	gen, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return 0
	}
	return uint32(gen)
}

// CheckToken refuses what could not stand as one token of a subject and in the name of a consumer.
func CheckToken(what, token string) error {
	if token == "" || len(token) > 64 || strings.ContainsFunc(token, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}) {
		return fmt.Errorf("%s %q: use 1 to 64 letters, digits, '_' or '-'", what, token)
	}
	return nil
}
