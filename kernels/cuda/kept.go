package cuda

import "errors"

// kept remembers what was made for keys, fewer than 2·half entries of it. What is not asked for while half others are goes first.
type kept[K comparable, V any] struct {
	half       int
	make       func(K) (V, error)
	drop       func(V) error // of what goes
	young, old map[K]V
}

func keep[K comparable, V any](half int, make func(K) (V, error), drop func(V) error) *kept[K, V] {
	return &kept[K, V]{half: half, make: make, drop: drop, young: map[K]V{}, old: map[K]V{}}
}

// get returns what was made for k, and makes it if it is not there.
func (c *kept[K, V]) get(k K) (V, error) {
	v, ok := c.young[k]
	if ok {
		return v, nil
	}
	if v, ok = c.old[k]; ok {
		delete(c.old, k)
	} else {
		var err error
		if v, err = c.make(k); err != nil {
			return v, err
		}
	}
	c.young[k] = v
	if len(c.young) < c.half {
		return v, nil
	}
	err := c.discard(c.old)
	c.young, c.old = c.old, c.young
	return v, err
}

func (c *kept[K, V]) discard(m map[K]V) error {
	var errs []error
	for _, v := range m {
		errs = append(errs, c.drop(v))
	}
	clear(m)
	return errors.Join(errs...)
}

// close drops everything.
func (c *kept[K, V]) close() error { return errors.Join(c.discard(c.young), c.discard(c.old)) }
