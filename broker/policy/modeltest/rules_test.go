package modeltest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// without are systems that one rule keeps whole, and what goes wrong when it is not in force.
var without = []struct {
	rule Rule
	want string
	sys  System
}{
	{CreditFloor, "nobody can do anything", with("", [][]int{{0, 0}, {0}}, nil)},
	{PublishWithinLookahead, "3 open roots", with("", [][]int{{0}, {0}, {0}}, nil)},
	{PublishInPlanOrder, "nobody can do anything", with("", oneOne, nil)},
	{ResumeBehindTail, "nobody can do anything", with("", [][]int{{0, 0}, {1}}, func(s *System) { s.Faults.Builder = 1 })},
	{ReserveTarget, "nobody can do anything", with("", twoMany, func(s *System) { s.AtCeiling = true })},
	{ReservePack, "nobody can do anything", with("", [][]int{{0, 1}, {0, 0}}, func(s *System) { s.AtCeiling = true })},
	{ReleaseNamesGeneration, "release of an earlier use", with("", twoOne, func(s *System) { s.Faults.Doubles, s.Grain.Releases = 1, true })},
	{ReleaseNamesOwner, "release of a dead owner", with("", twoOne, func(s *System) { s.Faults.Target, s.Grain.Releases = 1, true })},
	{ReleaseBeforeAck, "nobody will release it", with("", oneOne, func(s *System) { s.Faults.Packer, s.Grain.Pack, s.Grain.Train = 1, true, true })},
	{DropReleases, "nobody will release it", with("", twoOne, func(s *System) { s.Faults.Doubles, s.Grain.Pack = 1, true })},
	{FreeCommitted, "nobody will release it", with("", oneOne, func(s *System) { s.Faults.Lost, s.Grain.Releases = 1, true })},
	{HandOnAgain, "nobody can do anything", with("", alone, func(s *System) { s.Faults.Lost = 1 })},
	{FreeOldGeneration, "nobody will release it", with("", twoOne, func(s *System) { s.Faults.Rank = 1 })},
	{BumpBeforeWrite, "overwritten while it read", with("", twoOne, func(s *System) { s.Packers, s.Faults.LostMarks, s.Grain.Pack = 2, 1, true })},
	{CheckAfterCopy, "overwritten while it read", with("", twoOne, func(s *System) { s.Packers, s.Faults.LostMarks, s.Grain.Pack = 2, 1, true })},
	{RankChecksAfterCopy, "overwritten while it read", with("", [][]int{{0, 0}}, func(s *System) {
		s.Deterministic, s.InOrder, s.Ordered, s.Lean, s.Ranks, s.Faults.Rank, s.Grain.Reads = true, true, true, true, 2, 1, true
	})},
	{HopLimitCoversSlots, "nobody can do anything", with("", twoThird, func(s *System) { s.Grain.Train = true })},
	{ParkUntilOpen, "never completes", with("", [][]int{{0, 1}, {0}, {2}}, func(s *System) { s.Lookahead, s.Grain.Train = 2, true })},
	{CompareAndSet, "sums of two members", with("", [][]int{{0, 1}}, func(s *System) { s.Ranks, s.Faults.LostMarks, s.Grain.Train = 2, 1, true })},
	{ClaimBeforeWork, "both work on batch 0", with("", alone, func(s *System) { s.Ranks, s.Faults.LostMarks, s.Faults.Rank, s.Grain.Train = 2, 1, 1, true })},
	{GiveBackClaims, "nobody can do anything", with("", alone, func(s *System) { s.Ranks, s.Faults.Packer, s.Grain.Train = 2, 1, true })},
	{OutsidersAreVoid, "commits batches", with("", twoOne, func(s *System) { s.Ranks, s.Faults.Rank = 2, 1 })},
	{MembersAreNew, "commits batches", with("", twoOne, func(s *System) { s.Ranks, s.Faults.Rank = 2, 1 })},
	{FirstControlWins, "made incomplete", with("", twoOne, func(s *System) { s.Ranks, s.Faults.Rank = 2, 1 })},
	{StepAfterCommit, "trained again", with("", twoOne, func(s *System) { s.Ranks, s.Faults.Rank = 2, 1 })},
	{AddBehindCommit, "commits batches", with("", oneOne, func(s *System) { s.AtCeiling = true })},
	{AckAfterCommit, "nobody can do anything", with("", twoOne, func(s *System) { s.Ranks, s.Faults.Rank = 2, 1 })},
	{DropOldGenerations, "adds batch 0 twice", with("", oneOne, func(s *System) { s.Faults.Rank = 1 })},
	{PurgeOldGeneration, "the tripwire refuses roots", with("", [][]int{{0}, {0}, {0}}, func(s *System) { s.Faults.Rank = 1 })},
	{ConsumersPerGeneration, "nobody can do anything", with("", oneOne, func(s *System) { s.Faults.Rank = 1 })},
	{ReserveLowest, "nobody can do anything", with("", [][]int{{0, 1, 0}}, func(s *System) { s.Deterministic, s.InOrder = true, true })},
	{FreeWhenMovedBack, "nobody can do anything", with("", [][]int{{0, 0, 0}}, func(s *System) {
		s.Deterministic, s.InOrder, s.Ordered, s.Lean, s.Ranks, s.Faults.Rank = true, true, true, true, 2, 1
	})},
	{ReserveBuffer, "nobody can do anything", with("", [][]int{{0, 1, 0, 0}}, func(s *System) {
		s.Deterministic, s.InOrder, s.AtCeiling, s.Buffers, s.PackSlots = true, true, true, 2, 3
	})},
}

// savings are rules that the other rules make unnecessary for correctness, there at least.
var savings = []struct {
	rule Rule
	why  string
	sys  System
}{
	{DropCommittedReleases, "the owner frees the slot of a committed window by itself",
		with("", oneOne, func(s *System) { s.Faults.LostMarks, s.Faults.Packer, s.Faults.Doubles = 1, 1, 1 })},
	{FreeCommitted, "whoever drops a hop of a committed window releases its slot, as long as the broker loses nothing",
		with("", oneOne, func(s *System) { s.Faults.LostMarks, s.Faults.Packer, s.Faults.Doubles = 1, 1, 1 })},
	{ReserveBuffer, "with a part of the sum for each batch, no copy waits for another batch",
		with("", [][]int{{0, 1, 0, 0}}, func(s *System) { s.Deterministic, s.AtCeiling, s.Buffers, s.PackSlots = true, true, 2, 3 })},
}

func TestWithoutARule(t *testing.T) {
	tried := map[Rule]bool{None: true}
	whole := map[string]bool{} // systems that are explored with all rules in force
	for _, sys := range systems {
		sys.Name = ""
		whole[fmt.Sprint(sys)] = true
	}
	for _, s := range savings {
		tried[s.rule] = true
	}
	for _, c := range without {
		tried[c.rule] = true
		t.Run(c.rule.String(), func(t *testing.T) {
			t.Parallel()
			sys := c.sys
			sys.Without = c.rule
			f := explore(t, sys).Failure
			if f == nil || errors.Is(f.Err, ErrTooLarge) || !strings.Contains(f.Err.Error(), c.want) {
				t.Fatalf("found %+v, want %q", f, c.want)
			}
			t.Logf("%v, after %d steps:\n  %s", f.Err, len(f.Steps), strings.Join(f.Steps, "\n  "))
		})
		same := fmt.Sprint(c.sys)
		if whole[same] {
			continue
		}
		whole[same] = true
		t.Run(c.rule.String()+" in force", func(t *testing.T) {
			t.Parallel()
			if f := explore(t, c.sys).Failure; f != nil {
				t.Fatalf("%v, after\n  %s", f.Err, strings.Join(f.Steps, "\n  "))
			}
		})
	}
	for r := range rules {
		if !tried[r] {
			t.Errorf("nobody tries what happens without %v", r)
		}
	}
}

// pairs are rules of which either is enough, and what goes wrong without both.
var pairs = []struct {
	one, other Rule
	want       string
	sys        System
}{
	{FreeCommitted, DropCommittedReleases, "nobody will release it", with("", oneOne, func(s *System) { s.Faults.Doubles = 1 })},
}

func TestOneOfTwoRulesIsEnough(t *testing.T) {
	for _, c := range pairs {
		t.Run(fmt.Sprintf("%v %v", c.one, c.other), func(t *testing.T) {
			t.Parallel()
			sys := c.sys
			for _, r := range []Rule{c.one, c.other} {
				sys.Without = r
				if f := explore(t, sys).Failure; f != nil {
					t.Errorf("without %v alone: %v, after\n  %s", r, f.Err, strings.Join(f.Steps, "\n  "))
				}
			}
			sys.Without, sys.Also = c.one, c.other
			f := explore(t, sys).Failure
			if f == nil || !strings.Contains(f.Err.Error(), c.want) {
				t.Fatalf("without both: found %+v, want %q", f, c.want)
			}
			t.Logf("without both: %v, after %d steps:\n  %s", f.Err, len(f.Steps), strings.Join(f.Steps, "\n  "))
		})
	}
}

func TestRulesThatOthersCover(t *testing.T) {
	for _, c := range savings {
		t.Run(c.rule.String(), func(t *testing.T) {
			t.Parallel()
			sys := c.sys
			sys.Without = c.rule
			if f := explore(t, sys).Failure; f != nil {
				t.Fatalf("%v: but %s; after\n  %s", f.Err, c.why, strings.Join(f.Steps, "\n  "))
			}
			t.Log(c.why)
		})
	}
}
