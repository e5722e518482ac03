package brokertest

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// Proxy stands between a client and the broker, and can cut the client off for good in the middle of its work.
type Proxy struct {
	URL string
	Cut chan struct{} // closed when the client was cut off

	l      net.Listener
	server string
	wg     sync.WaitGroup

	mu    sync.Mutex
	armed bool
	left  int // requests that still pass once it is armed
	conns []net.Conn
}

// Proxy returns one that passes everything.
func (b *Broker) Proxy() *Proxy {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	p := &Proxy{URL: "nats://" + l.Addr().String(), Cut: make(chan struct{}), l: l, server: strings.TrimPrefix(b.URL, "nats://")}
	p.wg.Add(1)
	go p.accept()
	b.t.Cleanup(func() { p.cut(); p.wg.Wait() })
	return p
}

// Broker is the broker as seen through the proxy.
func (p *Proxy) Broker(t testing.TB) *Broker { return &Broker{URL: p.URL, t: t} }

// CutAfter lets n more requests and records of the client through, and nothing after them.
func (p *Proxy) CutAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.left = true, n
}

func (p *Proxy) accept() {
	defer p.wg.Done()
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		p.wg.Add(2)
		go func() {
			defer p.wg.Done()
			defer client.Close()
			_, _ = io.Copy(client, server) // ends with either connection
		}()
		go func() {
			defer p.wg.Done()
			defer server.Close()
			p.forward(server, bufio.NewReader(client))
		}()
	}
}

func (p *Proxy) forward(server net.Conn, client *bufio.Reader) {
	for {
		line, err := client.ReadBytes('\n')
		if isRequest(line) && p.spend() {
			p.cut()
			return
		}
		if _, werr := server.Write(line); werr != nil || err != nil {
			return
		}
	}
}

func isRequest(line []byte) bool {
	for _, prefix := range []string{"PUB $JS.", "HPUB $JS.", "PUB ps.", "HPUB ps."} {
		if bytes.HasPrefix(line, []byte(prefix)) {
			return true
		}
	}
	return false
}

// spend reports whether this request is one too many.
func (p *Proxy) spend() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left--
	return p.armed && p.left < 0
}

func (p *Proxy) cut() {
	p.l.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
	select {
	case <-p.Cut:
	default:
		close(p.Cut)
	}
}
