package modeltest

import (
	"strings"
	"testing"
)

func TestTmpMut(t *testing.T) {
	one := System{Lookahead: 1, Targets: 1, TargetSlots: 2, Packers: 1, PackSlots: 2, Ranks: 1}
	with := func(r Rule, plan [][]int, f func(s *System)) System {
		s := one
		s.Name, s.Plan, s.Without = r.String(), plan, r
		if f != nil {
			f(&s)
		}
		return s
	}
	three, five := [][]int{{0, 1}, {0}}, [][]int{{0, 1}, {0, 0, 0}}
	_ = five
	for _, sys := range []System{
		with(CreditFloor, [][]int{{0, 0}, {0}}, nil),
		with(PublishWithinLookahead, [][]int{{0}, {0}, {0}}, nil),
		with(PublishInPlanOrder, [][]int{{0}, {0}}, nil),
		with(ResumeBehindTail, [][]int{{0, 0}, {1}}, func(s *System) { s.Faults.Builder = 1 }),
		with(ReserveTarget, five, func(s *System) {  }),
		with(ReservePack, [][]int{{0, 1}, {0, 0}}, nil),
		with(ReleaseNamesGeneration, three, func(s *System) { s.Faults.Doubles = 1; s.Grain.Releases = true }),
		with(ReleaseNamesOwner, three, func(s *System) { s.Faults.Target = 1; s.Grain.Releases = true }),
		with(ReleaseBeforeAck, three, func(s *System) { s.Faults.Packer = 1; s.Grain.Hops = true }),
		with(DropReleases, three, func(s *System) { s.Faults.Doubles = 1; s.Grain.Hops = true }),
		with(FreeCommitted, three, func(s *System) { s.Faults.Doubles=1; s.Faults.LostMarks = 1; s.Faults.Packer=1; s.Grain.Hops=true }),
		with(FreeOldGeneration, three, func(s *System) { s.Faults.Rank = 1 }),
		with(BumpBeforeWrite, three, func(s *System) { s.Packers = 2; s.Faults.LostMarks = 1; s.Grain.Hops = true }),
		with(CheckAfterCopy, three, func(s *System) { s.Packers = 2; s.Faults.LostMarks = 1; s.Grain.Hops = true }),
		with(RankChecksAfterCopy, [][]int{{0, 0}, {0}}, func(s *System) { s.Faults.LostMarks = 1; s.Ranks = 1; s.Grain.Hops = true; s.Grain.Reads = true }),
		with(HopLimitCoversSlots, three, func(s *System) { s.Grain.Hops = true }),
		with(ParkUntilOpen, three, func(s *System) { s.Grain.Hops = true }),
		with(CompareAndSet, three, func(s *System) { s.Ranks = 2; s.Faults.LostMarks = 1; s.Grain.Hops = true }),
		with(ClaimBeforeWork, three, func(s *System) { s.Ranks = 2; s.Faults.LostMarks = 1; s.Faults.Rank = 1; s.Grain.Hops = true }),
		with(GiveBackClaims, three, func(s *System) { s.Ranks = 2; s.Faults.Packer = 1;s.Grain.Reads = true }),
		with(OutsidersAreVoid, three, func(s *System) { s.Ranks = 2; s.Faults.Rank = 1 }),
		with(FirstControlWins, three, func(s *System) { s.Ranks = 2; s.Faults.Rank = 1 }),
		with(StepAfterCommit, three, func(s *System) { s.Ranks = 2; s.Faults.Rank = 1 }),
		with(AckAfterCommit, three, func(s *System) { s.Ranks = 2; s.Faults.Rank = 1 }),
		with(DropOldGenerations, three, func(s *System) { s.Faults.Rank = 1; s.Grain.Hops = true }),
		with(PurgeOldGeneration, three, func(s *System) { s.Faults.Rank = 1 }),
		with(ConsumersPerGeneration, three, func(s *System) { s.Faults.Rank = 1 }),
		with(ReserveLowest, [][]int{{0, 1, 0}}, func(s *System) { s.Deterministic = true }),
		with(FreeWhenMovedBack, [][]int{{0, 1, 0, 0}}, func(s *System) { s.Deterministic = true; s.Ranks = 2; s.Faults.Rank = 1 }),
		with(ReserveBuffer, [][]int{{0, 1, 0, 0}}, func(s *System) { s.Deterministic = true; s.Buffers = 2; s.PackSlots = 3; s.AtCeiling = true }),
	} {
		res := explore(t, sys, 2_000_000)
		if f := res.Failure; f != nil {
			n := 6
			t.Logf("%s: %v after %d steps\n... %s", sys.Name, f.Err, len(f.Steps), strings.Join(f.Steps[max(0, len(f.Steps)-n):], "\n... "))
		} else {
			t.Errorf("%s NOT FOUND", sys.Name)
		}
		sys.Without = None
		if f := explore(t, sys, 2_000_000).Failure; f != nil {
			t.Errorf("%s: BASE FAILS %v\n%s", sys.Name, f.Err, strings.Join(f.Steps, "\n"))
		}
	}
}
