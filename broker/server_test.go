package broker_test

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"penstock/broker"
	"penstock/broker/brokertest"
)

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	_, err = broker.StartServer(brokertest.Context(t), broker.ServerConfig{Host: "127.0.0.1", Port: port, Store: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("got %v, want an error that names %s", err, l.Addr())
	}
}

func TestServerConfigErrors(t *testing.T) {
	for name, cfg := range map[string]broker.ServerConfig{
		"no host":   {Store: t.TempDir()},
		"no store":  {Host: "127.0.0.1"},
		"port":      {Host: "127.0.0.1", Store: t.TempDir(), Port: 70000},
		"sync":      {Host: "127.0.0.1", Store: t.TempDir(), Sync: "sometimes"},
		"address":   {Host: "192.0.2.1", Store: t.TempDir()},
		"not a dir": {Host: "127.0.0.1", Store: "/dev/null/store"},
	} {
		if s, err := broker.StartServer(brokertest.Context(t), cfg); err == nil {
			s.Close()
			t.Errorf("%s: started", name)
		}
	}
}

func TestStoreInUse(t *testing.T) {
	cfg := broker.ServerConfig{Host: "127.0.0.1", Store: t.TempDir(), URLFile: filepath.Join(t.TempDir(), "url")}
	s, err := broker.StartServer(brokertest.Context(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if url, err := broker.ReadURL(cfg.URLFile); err != nil || url != s.URL() {
		t.Errorf("URL file says %q, %v; want %q", url, err, s.URL())
	}
	if _, err := broker.StartServer(brokertest.Context(t), cfg); err == nil || !strings.Contains(err.Error(), cfg.Store) {
		t.Errorf("second server: got %v, want an error that names the store", err)
	}
	s.Close()
	if err := s.Wait(brokertest.Context(t)); err != nil {
		t.Error(err)
	}
	if s, err = broker.StartServer(brokertest.Context(t), cfg); err != nil {
		t.Fatalf("after close: %v", err)
	}
	s.Close()
}

func TestTopologyMismatch(t *testing.T) {
	p := brokertest.StartExternal(t)
	c := p.Conn("test", broker.Options{})
	makeStream(t, p.URL, "PS_FWD", "ps.fwd.*")
	err := c.EnsureTopology(brokertest.Context(t))
	if !errors.Is(err, broker.ErrTopology) || !strings.Contains(err.Error(), "PS_FWD") {
		t.Fatalf("got %v, want ErrTopology that names PS_FWD", err)
	}
}
