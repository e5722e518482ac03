package modeltest

// Rule names one of the rules that the protocol stands on.
type Rule int

// The rules that can be taken out of force.
const (
	None                   Rule = iota
	CreditFloor                 // a pull limit is at least the bucket's most batches of a window
	PublishWithinLookahead      // the builder publishes window w only when w ≤ committed + R
	PublishInPlanOrder          // one publisher a bucket, in plan order
	ResumeBehindTail            // a restarted builder reads each subject's tail
	ReserveTarget               // the last free slot of a target is for the oldest window
	ReservePack                 // the last free slot of a packer is for the oldest window
	ReleaseNamesGeneration      // a release is honoured only for the use that it names
	ReleaseNamesOwner           // and only by the incarnation that it names
	ReleaseBeforeAck            // a slot is released before the hop is acknowledged
	DropReleases                // whoever drops a message releases its slot
	DropCommittedReleases       // also if its window has committed
	FreeCommitted               // an owner frees the slots of committed windows
	HandOnAgain                 // an owner hands on again what the open window waits for
	FreeOldGeneration           // an owner frees all slots when a generation opens
	BumpBeforeWrite             // the generation word moves before the slot is written
	CheckAfterCopy              // a packer tests the generation again after its copy
	RankChecksAfterCopy         // and so does a rank
	HopLimitCoversSlots         // consumers of hops may have all slots' messages out
	ParkUntilOpen               // what may not be worked on yet is held, not handed back at once
	CompareAndSet               // the ledger takes a record only behind the one that its writer saw
	ClaimBeforeWork             // a rank writes a claim before it works
	GiveBackClaims              // a rank that gives work up gives its claim back
	OutsidersAreVoid            // claims and additions by an incarnation outside the rank epoch do not count
	MembersAreNew               // whoever joins the group does so as another incarnation
	FirstControlWins            // commit and epoch exclude each other
	StepAfterCommit             // a rank steps only when it has read the commit
	AddBehindCommit             // an addition follows the commit of the window before its own
	AckAfterCommit              // roots are acknowledged only then
	DropOldGenerations          // records of a lower generation are dropped
	PurgeOldGeneration          // opening a generation purges the queues
	ConsumersPerGeneration      // and makes new consumers, which old acknowledgements do not reach
	ReserveLowest               // for ranks that add in plan order: the last free slot is for the lowest index not added
	FreeWhenMovedBack           // and when that index moves back, slots at or after it are freed
	ReserveBuffer               // and a last buffer of such a rank is for that index, too
	rules
)

var ruleNames = [rules]string{
	"None", "CreditFloor", "PublishWithinLookahead", "PublishInPlanOrder", "ResumeBehindTail", "ReserveTarget", "ReservePack",
	"ReleaseNamesGeneration", "ReleaseNamesOwner", "ReleaseBeforeAck", "DropReleases", "DropCommittedReleases", "FreeCommitted", "HandOnAgain", "FreeOldGeneration",
	"BumpBeforeWrite", "CheckAfterCopy", "RankChecksAfterCopy", "HopLimitCoversSlots", "ParkUntilOpen", "CompareAndSet",
	"ClaimBeforeWork", "GiveBackClaims", "OutsidersAreVoid", "MembersAreNew", "FirstControlWins", "StepAfterCommit", "AddBehindCommit", "AckAfterCommit", "DropOldGenerations",
	"PurgeOldGeneration", "ConsumersPerGeneration", "ReserveLowest", "FreeWhenMovedBack", "ReserveBuffer",
}

func (r Rule) String() string { return ruleNames[r] }
