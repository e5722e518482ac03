package policy

// Hold is how many batches of the open window a rank may have in hand, of which it works on one: so many that it need not wait
// for the next, as long as there are more than would fill the hands of all; behind that the one it works on, because whoever is
// free first should have what is left. A slow rank so gets less of a window, however short that is.
func Hold(unclaimed, ranks, most int) int {
	if unclaimed > most*ranks {
		return most
	}
	return 1
}

// Spare is the place of the batch that a rank hands back of those it has at hand, because another may begin it sooner; -1 for
// none, where it has no more than it keeps. near says, in the order in which they would be worked on, which lie on the rank's own
// GPU: of those that would have to be copied from another the last goes first, then the last of the rest. A rank that is given
// one again has asked for it, because it had room: so none is passed on for ever.
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
