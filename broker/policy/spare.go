package policy

// Spare is the place of the batch that a rank hands back of those it has at hand when a window opens and another rank may begin
// it sooner; -1 for none, where it has no more than it keeps. near says, in the order in which they would be worked on, which
// lie on the rank's own GPU: of those that would have to be copied from another the last goes first, then the last of the rest.
// Each goes back once a window at most, whoever takes it then, so that none is passed on for ever.
func Spare(near []bool, keep int) int {
	if len(near) <= keep {
		return -1
	}
	for i := len(near) - 1; i >= 0; i-- {
		if !near[i] {
			return i
		}
	}
	return len(near) - 1
}
