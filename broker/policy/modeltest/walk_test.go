package modeltest

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// spread deals batches to windows by shares of the buckets, long ones rare.
func spread(windows, size, buckets int, rng *rand.Rand) [][]int {
	plan := make([][]int, windows)
	for w := range plan {
		for range size {
			plan[w] = append(plan[w], min(rng.IntN(buckets), rng.IntN(buckets)))
		}
	}
	return plan
}

func TestWalks(t *testing.T) {
	everything := Faults{Builder: 3, Target: 6, Packer: 5, Rank: 3, LostMarks: 6, Lost: 6, Doubles: 6, Bad: 6, Moves: 20}
	walks := 40
	if *long {
		walks = 4000
	}
	for _, c := range []struct {
		name string
		sys  func(rng *rand.Rand) System
	}{
		{"eight buckets, five targets, three ranks", func(rng *rand.Rand) System {
			return System{Plan: spread(5, 12, 8, rng), Lookahead: 1, Targets: 5, TargetSlots: 2, Packers: 3, PackSlots: 3, Ranks: 3,
				Grain: Grain{true, true, true, true}, Faults: everything}
		}},
		{"one rank, far ahead", func(rng *rand.Rand) System {
			return System{Plan: spread(10, 6, 4, rng), Lookahead: 3, Targets: 3, TargetSlots: 3, Packers: 2, PackSlots: 4, Ranks: 1, AtCeiling: true,
				Grain: Grain{true, true, true, true}, Faults: everything}
		}},
		{"by the choosing rule", func(rng *rand.Rand) System {
			return System{Plan: spread(8, 8, 6, rng), Lookahead: 1, Targets: 4, TargetSlots: 2, Packers: 2, PackSlots: 2, Ranks: 2, Ordered: true, AtCeiling: true,
				Grain: Grain{true, true, false, true}, Faults: everything}
		}},
		{"deterministic", func(rng *rand.Rand) System {
			return System{Plan: spread(8, 8, 5, rng), Lookahead: 1, Targets: 4, TargetSlots: 2, Packers: 2, PackSlots: 3, Ranks: 1, Deterministic: true, InOrder: true, Buffers: 2,
				Grain: Grain{true, true, true, true}, Faults: everything}
		}},
		{"deterministic, three ranks", func(rng *rand.Rand) System {
			return System{Plan: spread(8, 8, 5, rng), Lookahead: 1, Targets: 4, TargetSlots: 2, Packers: 3, PackSlots: 2, Ranks: 3, Deterministic: true,
				Grain: Grain{true, true, true, true}, Faults: everything}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			began, total, faults := time.Now(), 0, 0
			for seed := range uint64(walks) {
				rng := rand.New(rand.NewPCG(seed, 0))
				m, err := New(c.sys(rng))
				if err != nil {
					t.Fatal(err)
				}
				p := Walk(m, rng, 20, 100_000)
				total, faults = total+p.Steps, faults+p.Faults
				if p.Err != nil {
					t.Fatalf("seed %d, step %d: %v, after ...\n  %s", seed, p.Steps, p.Err, strings.Join(p.Last, "\n  "))
				}
			}
			t.Logf("%d walks, %d states, %d faults, %.0f states/s", walks, total, faults, float64(total)/time.Since(began).Seconds())
		})
	}
}

// Some rules are found missing by walking, too.
func TestWalkFindsWhatIsMissing(t *testing.T) {
	for _, rule := range []Rule{ReserveTarget, DropReleases, StepAfterCommit, OutsidersAreVoid} {
		found := false
		for seed := uint64(0); seed < 200 && !found; seed++ {
			rng := rand.New(rand.NewPCG(seed, 1))
			m, err := New(System{Plan: spread(4, 4, 3, rng), Lookahead: 2, Targets: 2, TargetSlots: 2, Packers: 1, PackSlots: 2, Ranks: 2, AtCeiling: true,
				Grain: Grain{true, true, true, true}, Faults: Faults{Rank: 3, Doubles: 3, Packer: 2}, Without: rule})
			if err != nil {
				t.Fatal(err)
			}
			found = Walk(m, rng, 10, 20_000).Err != nil
		}
		if !found {
			t.Errorf("no walk misses %v", rule)
		}
	}
}
