package kernels

import "context"

// Collective is a device that can add up tensors with other devices of the machine, which a library moves between them
// without the host.
type Collective interface {
	// Peer says with which devices this one can join. An error says why with none.
	Peer() (Peer, error)
	// Invite returns the id of a new communicator, which each of its ranks joins once.
	Invite() (id []byte, err error)
	// Join makes the device rank number rank of so many. It waits until all have joined, or ctx ends; what was begun is
	// given up then.
	Join(ctx context.Context, id []byte, rank, ranks int) (Comm, error)
}

// Peer is a device as others see it: those of one library and of different processors can join.
type Peer struct {
	Library   string // name and version
	Processor string
}

// Comm is one rank of a communicator. All ranks make the same calls in the same order, and get the same bits. One goroutine at
// a time uses it; Mark is for the one that uses the device, which closes the device only after the communicator.
type Comm interface {
	// Mark returns what tells the goroutine that uses the communicator whether the device's work before Mark is complete. It holds
	// until Wait. Mark may be called at any time: after Close, what it returns gives an error. The answer may wait for other ranks
	// to enqueue what this one has; if ctx ends meanwhile, the communicator is good for nothing.
	Mark() (reached func(ctx context.Context) (bool, error))
	// AllReduce enqueues dst = Σ src over the ranks, beside the device's work: what that has to do with the two is complete. dst may
	// be src. It is undefined until Wait, and src must not change before.
	AllReduce(dst, src Tensor)
	// Wait returns once every sum enqueued is complete. After an error, as that of a ctx that ends, the communicator is good
	// for nothing.
	Wait(ctx context.Context) error
	// Close gives the communicator up, whatever is under way in it, without waiting for other ranks. Nothing is written after.
	Close() error
}
