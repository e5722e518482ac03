package broker_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"penstock/broker/brokertest"
)

// raw is a client beside the package's own, for what the package cannot be made to do.
func raw(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func makeStream(t testing.TB, url, name, subjects string) {
	t.Helper()
	js, err := jetstream.New(raw(t, url))
	if err == nil {
		_, err = js.CreateStream(brokertest.Context(t), jetstream.StreamConfig{Name: name, Subjects: []string{subjects}})
	}
	if err != nil {
		t.Fatal(err)
	}
}
