package cuda

import (
	"errors"
	"testing"
)

// Keys that are asked for again and again stay, however many others come by; what goes is dropped once, and no more is held
// than the bound says.
func TestKept(t *testing.T) {
	const half, hot = 8, 3
	made, held := map[int]int{}, map[int]bool{}
	c := keep(half, func(k int) (int, error) {
		made[k]++
		held[-k] = true
		return -k, nil
	}, func(v int) error {
		if !held[v] {
			t.Errorf("%d is dropped twice", v)
		}
		delete(held, v)
		return nil
	})
	for i := range 10 * half {
		for k := range hot {
			if v, err := c.get(k); v != -k || err != nil {
				t.Fatalf("key %d: %d, %v", k, v, err)
			}
		}
		if v, err := c.get(100 + i); v != -100-i || err != nil {
			t.Fatalf("key %d: %d, %v", 100+i, v, err)
		}
		if len(held) >= 2*half || len(held) != len(c.young)+len(c.old) {
			t.Fatalf("%d are held, %d of them known", len(held), len(c.young)+len(c.old))
		}
	}
	for k := range hot {
		if made[k] != 1 {
			t.Errorf("key %d was made %d times", k, made[k])
		}
	}
	if c.get(100); made[100] != 2 {
		t.Errorf("a key that nobody asked for was made %d times", made[100])
	}
	if err := c.close(); err != nil || len(held) != 0 {
		t.Errorf("after close %d are held: %v", len(held), err)
	}
}

// What cannot be made is not kept, and what cannot be dropped is told.
func TestKeptFails(t *testing.T) {
	broken := errors.New("broken")
	fails := true
	c := keep(2, func(k int) (int, error) {
		if fails {
			return 0, broken
		}
		return k, nil
	}, func(v int) error { return broken })
	if _, err := c.get(1); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	fails = false
	for k := 1; k <= 4; k++ {
		if v, err := c.get(k); v != k || errors.Is(err, broken) != (k == 4) {
			t.Errorf("key %d: %d, %v", k, v, err)
		}
	}
	if err := c.close(); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}
