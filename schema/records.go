package schema

// Version is the version of every record on the wire. A record of another version is refused.
const Version = 1

// MaxRecord is the largest encoded record, in bytes, that may travel on ps.> (tensors never do).
const MaxRecord = 2048

// MaxWindowBatches is the most batches of a window: with more, its commit record might exceed MaxRecord.
const MaxWindowBatches = 256

// Record is anything that travels on a subject. Its kind is the "kind" field of the encoded map.
type Record interface{ Kind() string }

// Batch names one planned batch of one run.
type Batch struct {
	Run    string `msgpack:"run"`
	Gen    uint32 `msgpack:"gen"`
	Epoch  uint32 `msgpack:"epoch"`
	Window uint32 `msgpack:"window"` // the optimizer step that contains it, counted over the run from 0
	Index  uint32 `msgpack:"batch"`  // position in plan order, counted over the run from 0
	Bucket string `msgpack:"bucket"` // subject token, b<upper edge>
}

// SlotRef names one use of one slot: the slab, the process that owns it, and the slot's generation at that use.
type SlotRef struct {
	Pool        string `msgpack:"pool"`
	Incarnation uint64 `msgpack:"inc"`
	Slot        uint32 `msgpack:"slot"`
	Generation  uint64 `msgpack:"sgen"`
}

// Root is one planned batch on ps.fwd.<bucket>; it stays un-acknowledged until its window has committed.
// Its documents come from the plan, its token ids from the store.
type Root struct {
	Batch
	Documents uint32 `msgpack:"docs"`
	Tokens    uint32 `msgpack:"tokens"`
}

// Hop hands features on: ps.pack.<bucket> from a target's pool, ps.train.<bucket> from a packer's.
type Hop struct {
	Batch
	SlotRef
	Documents uint32 `msgpack:"docs"`
	Tokens    uint32 `msgpack:"tokens"` // rows of the features
	Width     uint32 `msgpack:"width"`  // taps × hidden size, columns of the features
	Checksum  uint64 `msgpack:"sum"`    // of the rows as kernels.CheckFeatures counts it
	Root      string `msgpack:"root"`   // acknowledge subject of the root message
	From      string `msgpack:"from"`   // instance that wrote the slot
	Sent      int64  `msgpack:"sent"`   // Unix nanoseconds at publish
}

// Release returns a slot to its owner on ps.rel.<pool>. It is honoured only if every field of the reference matches.
type Release struct {
	SlotRef
	By string `msgpack:"by"`
}

// Gen opens a generation on ps.ledger.<gen>.gen: windows from Start on are redone, older generations are void.
type Gen struct {
	Run   string `msgpack:"run"`
	Gen   uint32 `msgpack:"gen"`
	Start uint32 `msgpack:"start"`
	By    string `msgpack:"by"`
}

// Claim says on ps.ledger.<gen>.<window>.<batch> that a rank works on the batch.
type Claim struct {
	Batch
	Rank        string `msgpack:"rank"`
	Incarnation uint64 `msgpack:"inc"`
	RankEpoch   uint32 `msgpack:"repoch"`
}

// Added says that the batch's gradient is in the rank's sum of the open window.
type Added struct {
	Batch
	Rank        string `msgpack:"rank"`
	Incarnation uint64 `msgpack:"inc"`
	RankEpoch   uint32 `msgpack:"repoch"`
	Documents   uint32 `msgpack:"docs"`
	Tokens      uint32 `msgpack:"tokens"`
	Slots       uint32 `msgpack:"slots"`
}

// Suspect says that the batch's features were bad once and are to be recomputed.
type Suspect struct {
	Batch
	Reason string `msgpack:"reason"`
	From   string `msgpack:"from"` // instance that computed them
}

// Dead says that the batch is rejected; its window closes without it.
type Dead struct {
	Batch
	Reason string `msgpack:"reason"`
}

// Prepared says on ps.ledger.<gen>.<window>.prep.<rank> that the rank's reduced sum is ready.
type Prepared struct {
	Gen         uint32 `msgpack:"gen"`
	Window      uint32 `msgpack:"window"`
	Rank        string `msgpack:"rank"`
	Incarnation uint64 `msgpack:"inc"`
	RankEpoch   uint32 `msgpack:"repoch"`
	Hash        uint64 `msgpack:"hash"`
}

// Commit closes a window on ps.ledger.<gen>.<window>.ctl; the first control record wins.
type Commit struct {
	Run       string   `msgpack:"run"`
	Gen       uint32   `msgpack:"gen"`
	Window    uint32   `msgpack:"window"`
	RankEpoch uint32   `msgpack:"repoch"`
	Batches   []uint32 `msgpack:"batches"` // those added, in plan order
	Dead      []uint32 `msgpack:"dead"`
}

// RankEpoch changes the members of the rank group on the window's control subject.
type RankEpoch struct {
	Gen          uint32   `msgpack:"gen"`
	Window       uint32   `msgpack:"window"`
	RankEpoch    uint32   `msgpack:"repoch"`
	Members      []string `msgpack:"members"`
	Incarnations []uint64 `msgpack:"incs"` // of the members, in their order
}

// Join says on ps.board.join.<rank> that a rank wants to be a member from the next window on.
type Join struct {
	Rank        string `msgpack:"rank"`
	Incarnation uint64 `msgpack:"inc"`
}

// PlanInfo announces on ps.board.plan what the run trains on. Every stage derives the same plan from it.
type PlanInfo struct {
	Run      string   `msgpack:"run"`
	Data     string   `msgpack:"data"`  // content hash of the store
	Store    string   `msgpack:"store"` // path of the store on this host
	Buckets  []uint32 `msgpack:"buckets"`
	Windows  uint32   `msgpack:"windows"` // optimizer steps of the whole run
	Batches  uint32   `msgpack:"batches"`
	Rows     uint32   `msgpack:"rows"`     // read from the data files
	Rejected uint32   `msgpack:"rejected"` // of them; the reject file beside the store says why
}

// PoolInfo announces on ps.board.pool.<pool> how to open a slab.
type PoolInfo struct {
	Pool        string `msgpack:"pool"`
	Incarnation uint64 `msgpack:"inc"`
	Memory      string `msgpack:"memory"` // shm or cudaipc
	Device      int32  `msgpack:"device"` // -1 on the host
	Slots       uint32 `msgpack:"slots"`
	SlotBytes   uint64 `msgpack:"slot_bytes"`
	Element     string `msgpack:"element"` // type of what is in the slots: float32 or bfloat16
	Socket      string `msgpack:"socket"`  // under the run directory: passes the slab's descriptors
	Handle      []byte `msgpack:"handle"`  // CUDA IPC handle, empty for shm
}

// BucketState is the hint of ps.board.bucket.<bucket>.
type BucketState struct {
	Bucket    string `msgpack:"bucket"`
	Credit    uint32 `msgpack:"credit"` // the pull limit in force
	Floor     uint32 `msgpack:"floor"`
	Ceiling   uint32 `msgpack:"ceiling"`
	Published uint32 `msgpack:"published"` // roots published in this generation
	Remaining uint32 `msgpack:"remaining"` // roots of the run not yet published
}

// StageState is what an instance says of itself on ps.board.stage.<instance>.
type StageState struct {
	Instance    string             `msgpack:"instance"`
	Stage       string             `msgpack:"stage"`
	Incarnation uint64             `msgpack:"inc"`
	PID         int32              `msgpack:"pid"`
	Device      string             `msgpack:"device"`  // as it was given; processes that are given the same share it
	State       string             `msgpack:"state"`   // starting, waiting, running, draining, done
	Waiting     string             `msgpack:"waiting"` // what for, in words
	Gen         uint32             `msgpack:"gen"`
	Batches     uint64             `msgpack:"batches"`
	Tokens      uint64             `msgpack:"tokens"`
	SlotsUsed   uint32             `msgpack:"slots_used"`
	Slots       uint32             `msgpack:"slots"`
	Seconds     map[string]float64 `msgpack:"seconds"`     // wall time by activity: compute, copy, or a cause of waiting
	HandoffP50  float64            `msgpack:"handoff_p50"` // seconds from a hop's publish to the start of work, of the latest hops
	HandoffP99  float64            `msgpack:"handoff_p99"`
	Done        map[string]uint64  `msgpack:"done"` // pieces of work that are complete, by kind; of what is pulled from other GPUs, bytes
	Took        map[string]float64 `msgpack:"took"` // seconds that they took, by kind
	Pace        float64            `msgpack:"pace"` // seconds that a rank is measured to take for an operation of a batch; 0 before that
	At          int64              `msgpack:"at"`   // Unix nanoseconds
}

// Progress is the trainer's report on ps.board.progress, one per committed window.
type Progress struct {
	Gen          uint32    `msgpack:"gen"`
	Windows      uint32    `msgpack:"windows"` // committed so far: the next window's number
	Total        uint32    `msgpack:"total"`
	Loss         float64   `msgpack:"loss"`          // of the last window that has one: not where it is not finite
	CrossEntropy float64   `msgpack:"cross_entropy"` // decay-weighted, whatever the loss
	LR           float64   `msgpack:"lr"`
	GradNorm     float64   `msgpack:"grad_norm"`
	Tokens       uint64    `msgpack:"tokens"`
	Slots        uint64    `msgpack:"slots"`
	Dead         uint32    `msgpack:"dead"`
	Skipped      uint32    `msgpack:"skipped"`
	AcceptLength float64   `msgpack:"accept_length"` // of the last periodic evaluation, 0 before it
	Hits         []float32 `msgpack:"hits"`          // share of hits per position 1..B-1 in the last window
	Done         bool      `msgpack:"done"`
	At           int64     `msgpack:"at"`
}

// Control asks the stages for something on ps.board.control.
type Control struct {
	Run  string `msgpack:"run"`
	Want string `msgpack:"want"` // stop: drain, checkpoint and end
}

// Note is a warning on ps.board.note.<instance>, to be shown to whoever runs the run.
type Note struct {
	Instance string `msgpack:"instance"`
	Text     string `msgpack:"text"`
	At       int64  `msgpack:"at"` // Unix nanoseconds
}

func (Root) Kind() string        { return "root" }
func (Hop) Kind() string         { return "hop" }
func (Release) Kind() string     { return "release" }
func (Gen) Kind() string         { return "gen" }
func (Claim) Kind() string       { return "claim" }
func (Added) Kind() string       { return "added" }
func (Suspect) Kind() string     { return "suspect" }
func (Dead) Kind() string        { return "dead" }
func (Prepared) Kind() string    { return "prepared" }
func (Commit) Kind() string      { return "commit" }
func (RankEpoch) Kind() string   { return "rank_epoch" }
func (Join) Kind() string        { return "join" }
func (PlanInfo) Kind() string    { return "plan" }
func (PoolInfo) Kind() string    { return "pool" }
func (BucketState) Kind() string { return "bucket" }
func (StageState) Kind() string  { return "stage" }
func (Progress) Kind() string    { return "progress" }
func (Note) Kind() string        { return "note" }
func (Control) Kind() string     { return "control" }
