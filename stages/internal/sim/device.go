package sim

import "slices"

// device is one processor, or several that work as one. Jobs on it share its time equally.
type device struct {
	clock *clock
	jobs  []*job
	since float64 // when what is left of the jobs was last counted
	round int     // of the latest schedule; earlier ones are void
}

// job is work of some seconds on a device of its own.
type job struct {
	left float64
	done func()
}

// start adds a job; done is called when it has ended.
func (d *device) start(seconds float64, done func()) *job {
	d.count()
	j := &job{seconds, done}
	d.jobs = append(d.jobs, j)
	d.schedule()
	return j
}

// cancel takes a job off the device; its done is not called.
func (d *device) cancel(j *job) {
	if i := slices.Index(d.jobs, j); i >= 0 {
		d.count()
		d.jobs = slices.Delete(d.jobs, i, i+1)
		d.schedule()
	}
}

// count takes the time that has passed off what is left.
func (d *device) count() {
	for _, j := range d.jobs {
		j.left -= (d.clock.now - d.since) / float64(len(d.jobs))
	}
	d.since = d.clock.now
}

// schedule arranges for the end of the job that ends first.
func (d *device) schedule() {
	d.round++
	if len(d.jobs) == 0 {
		return
	}
	first := slices.MinFunc(d.jobs, func(a, b *job) int {
		switch {
		case a.left < b.left:
			return -1
		case a.left > b.left:
			return 1
		}
		return 0
	})
	round := d.round
	d.clock.after(max(0, first.left)*float64(len(d.jobs)), func() {
		if round != d.round {
			return
		}
		d.count()
		d.jobs = slices.DeleteFunc(d.jobs, func(j *job) bool { return j == first })
		d.schedule()
		first.done()
	})
}
