package team

// pause gives way to the other thread of a core for some tens of nanoseconds.
func pause()
