package broker_test

import (
	"errors"
	"testing"

	"penstock/broker"
	"penstock/broker/brokertest"
)

// A consumer that is gone cannot say so itself: who wants it reset hears that it is, and does not wait for it.
func TestResetOfWhatIsGone(t *testing.T) {
	ctx := brokertest.Context(t)
	conn := brokertest.Start(t).Conn("up", broker.Options{})
	brokertest.Open(t, conn, 1, 4, "b64")
	if err := conn.ResetRoots(ctx, 1, "b64"); err != nil {
		t.Error(err)
	}
	if err := conn.ResetRoots(ctx, 2, "b64"); !errors.Is(err, broker.ErrGone) {
		t.Errorf("of a generation that is not open: %v", err)
	}
}
