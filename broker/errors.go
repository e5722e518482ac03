package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	// ErrFull: the subject holds as many messages as it may. Nothing was stored; the message id is still free.
	ErrFull = errors.New("subject is full")
	// ErrEmpty: nothing can be pulled now, because nothing is stored or because the credit is used up.
	ErrEmpty = errors.New("nothing to pull")
	// ErrGone: the consumer does not exist, so its generation has not been opened or is over.
	ErrGone = errors.New("consumer is gone")
	// ErrLost: another record stands on the ledger subject. See [LostError].
	ErrLost = errors.New("another record was first")
	// ErrStale: a later generation is open already.
	ErrStale = errors.New("a later generation is open")
	// ErrTopology: a stream exists with other settings than this version needs.
	ErrTopology = errors.New("stream differs from the topology")
	// ErrClosed: the connection or the pull was closed by its owner.
	ErrClosed = errors.New("closed")
)

// LostError is a failed compare-and-set on the ledger. It matches [ErrLost].
type LostError struct {
	Winner Entry // the last record of the subject; its Record is nil when the subject is still empty
}

func (e *LostError) Error() string {
	if e.Winner.Record == nil {
		return fmt.Sprintf("%v: %s is empty", ErrLost, e.Winner.Subject)
	}
	return fmt.Sprintf("%v: %s holds %s at sequence %d", ErrLost, e.Winner.Subject, e.Winner.Record.Kind(), e.Winner.Seq)
}

func (e *LostError) Unwrap() error { return ErrLost }

const (
	codeStoreFailed      = 10077 // also "maximum messages per subject exceeded"
	codeUnavailable      = 10008
	codeWrongLast        = 10071
	codeWrongLastUnnamed = 10164
)

func apiCode(err error) jetstream.ErrorCode {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode
	}
	return 0
}

// isFull goes by the text as well: the server answers every refusal of its store with the same code.
func isFull(err error) bool {
	return apiCode(err) == codeStoreFailed && strings.Contains(err.Error(), "maximum messages per subject")
}

func isWrongLast(err error) bool {
	code := apiCode(err)
	return code == codeWrongLast || code == codeWrongLastUnnamed
}

// isAbsence says whether dialling failed because no server is there yet, or one went away meanwhile.
func isAbsence(err error) bool {
	var broken *net.OpError
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, io.EOF) || errors.As(err, &broken)
}

// isTransient says whether the same request may succeed once the server answers again.
func isTransient(err error) bool {
	for _, e := range []error{
		nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrReconnectBufExceeded,
		nats.ErrConnectionReconnecting, nats.ErrStaleConnection, jetstream.ErrNoStreamResponse,
		context.DeadlineExceeded, context.Canceled,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return apiCode(err) == codeUnavailable
}
