package broker_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"penstock/broker"
	"penstock/broker/brokertest"
	"penstock/schema"
)

// store is a broker's folder that a test may take away or take back.
type store struct {
	t    *testing.T
	dir  string
	port int
	srv  *broker.Server
}

func (s *store) start() {
	s.t.Helper()
	var err error
	if s.srv, err = broker.StartServer(brokertest.Context(s.t), broker.ServerConfig{Host: "127.0.0.1", Port: s.port, Store: s.dir, Log: func(l string) { s.t.Log(l) }}); err != nil {
		s.t.Fatal(err)
	}
	s.port = portOf(s.t, s.srv.URL())
}

// keep copies the folder, or a part of it, while the server is down.
func (s *store) keep(part string) string {
	s.t.Helper()
	to := filepath.Join(s.t.TempDir(), "kept")
	if err := os.CopyFS(to, os.DirFS(filepath.Join(s.dir, part))); err != nil {
		s.t.Fatal(err)
	}
	return to
}

func (s *store) replace(part, by string) {
	s.t.Helper()
	if err := os.RemoveAll(filepath.Join(s.dir, part)); err != nil {
		s.t.Fatal(err)
	}
	if by == "" {
		return
	}
	if err := os.CopyFS(filepath.Join(s.dir, part), os.DirFS(by)); err != nil {
		s.t.Fatal(err)
	}
}

func claim(i uint32) schema.Claim {
	return schema.Claim{Batch: schema.Batch{Gen: 1, Index: i}, Rank: "draft-1"}
}

func write(t *testing.T, c *broker.Conn, from, to uint32) {
	t.Helper()
	for i := from; i < to; i++ {
		if _, err := c.Ledger().Claim(brokertest.Context(t), claim(i), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnotherStore has the broker come back with a store that is not the one that was read.
func TestAnotherStore(t *testing.T) {
	for name, again := range map[string]uint32{"lost": 0, "lost and as long again": 9, "older": 0, "older and as long again": 9} {
		t.Run(name, func(t *testing.T) {
			s := &store{t: t, dir: filepath.Join(t.TempDir(), "store")}
			s.start()
			b := brokertest.At(t, s.srv.URL())
			c := b.Conn("reader", broker.Options{})
			write(t, c, 0, 4)
			s.srv.Close()
			old := ""
			if name[0] == 'o' {
				old = s.keep(".")
			}
			s.start()
			read := make(chan uint64, 16)
			ended := make(chan error, 1)
			go func() {
				ended <- c.Ledger().Follow(brokertest.Context(t), broker.LedgerAll, 0, func(e broker.Entry) error { read <- e.Seq; return nil })
			}()
			hints := make(chan broker.Hint, 16)
			go func() {
				_ = c.Board().Watch(brokertest.Context(t), ">", func(h broker.Hint) error { hints <- h; return nil })
			}()
			for i := range 3 {
				if err := c.Board().Put(brokertest.Context(t), "plan", schema.PlanInfo{Windows: uint32(i)}); err != nil {
					t.Fatal(err)
				}
			}
			write(t, c, 4, 8)
			for seq := range uint64(8) {
				if got := <-read; got != seq+1 {
					t.Fatalf("read %d, want %d", got, seq+1)
				}
			}
			for h := range hints {
				if h.Record.(schema.PlanInfo).Windows == 2 {
					break
				}
			}
			s.srv.Close()
			s.replace(".", old)
			if again > 0 { // somebody has written before the reader is back
				port := s.port
				s.port = 0
				s.start()
				write(t, brokertest.At(t, s.srv.URL()).Conn("writer", broker.Options{}), 20, 20+again)
				s.srv.Close()
				s.port = port
			}
			s.start()
			t.Cleanup(s.srv.Close)
			if err := <-ended; !errors.Is(err, broker.ErrStore) {
				t.Errorf("the reader ends with %v", err)
			}
			if err := c.Board().Put(brokertest.Context(t), "plan", schema.PlanInfo{Windows: 77}); err != nil {
				t.Fatal(err)
			}
			for h := range hints {
				if h.Record.(schema.PlanInfo).Windows == 77 {
					break
				}
			}
		})
	}
}

// TestConsumerAheadOfItsStream gives the server messages that are older than its consumers.
func TestConsumerAheadOfItsStream(t *testing.T) {
	s := &store{t: t, dir: filepath.Join(t.TempDir(), "store")}
	msgs := filepath.Join("jetstream", "$G", "streams", "PS_FWD", "msgs")
	root := func(i uint32) schema.Root { return schema.Root{Batch: schema.Batch{Gen: 1, Index: i}} }
	publish := func(c *broker.Conn, i uint32) {
		t.Helper()
		if err := broker.NewPublisher(c, broker.Fwd).Publish(brokertest.Context(t), "b64", root(i), ""); err != nil {
			t.Fatal(err)
		}
	}
	pull := func(c *broker.Conn) *broker.Delivery[schema.Root] {
		t.Helper()
		p, err := c.Roots(brokertest.Context(t), 1, "b64")
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close(context.Background())
		return brokertest.Fetch(t, p)
	}
	s.start()
	c := brokertest.At(t, s.srv.URL()).Conn("a", broker.Options{})
	brokertest.Open(t, c, 1, 16, "b64")
	publish(c, 0)
	s.srv.Close()
	old := s.keep(msgs)
	s.start()
	for i := range uint32(5) {
		publish(c, 1+i)
	}
	for range 6 {
		if err := pull(c).Ack(brokertest.Context(t)); err != nil {
			t.Fatal(err)
		}
	}
	s.srv.Close()
	s.replace(msgs, old)
	s.start()
	t.Cleanup(s.srv.Close)
	if got := pull(c).Record.Index; got != 0 {
		t.Errorf("root %d is delivered, want the one that is stored", got)
	}
	publish(c, 9)
	if got := pull(c).Record.Index; got != 9 {
		t.Errorf("root %d is delivered, want the new one", got)
	}
}

func portOf(t *testing.T, at string) int {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
