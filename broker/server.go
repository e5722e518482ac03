package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"
)

const readyTimeout = 30 * time.Second // a large store takes a while to recover

// ServerConfig is what an embedded server needs.
type ServerConfig struct {
	Host    string
	Port    int    // 0: any free one
	Store   string // folder of the streams, made if missing; one server at a time
	Sync    string // default: what was confirmed survives a kill; always: a power failure too
	URLFile string // written with the client URL once the server is ready; may be empty
	// Keys is a folder of keys, made if missing: nobody else is let in. Empty: everybody is, for tests.
	Keys string
	// TLSCert and TLSKey are files of the server's certificate and its key, without which it listens on loopback only.
	TLSCert, TLSKey string
	CA              string // for its own client
	// Log is given the server's warnings and errors, one line each. It may be nil.
	Log func(line string)
}

// Server is a nats-server with JetStream inside this process.
type Server struct {
	cfg  ServerConfig
	ns   *server.Server
	lock *os.File
}

// StartServer starts a server and returns once it takes clients and every stream of the topology is there. A port in
// use, a store in use and a store that cannot be read are errors.
func StartServer(ctx context.Context, cfg ServerConfig) (*Server, error) {
	opts, err := cfg.options()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Store, 0o700); err != nil {
		return nil, fmt.Errorf("broker store: %w", err)
	}
	s := &Server{cfg: cfg}
	if s.lock, err = lockStore(cfg.Store); err != nil {
		return nil, err
	}
	if err := s.start(ctx, opts); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (cfg ServerConfig) options() (*server.Options, error) {
	if cfg.Host == "" || cfg.Store == "" {
		return nil, errors.New("broker: host and store folder must be set")
	}
	if cfg.TLSCert == "" && !Loopback(cfg.Host) {
		return nil, fmt.Errorf("broker: %s is not a loopback address: that needs TLS, set broker.tls_cert and broker.tls_key", cfg.Host)
	}
	if cfg.Port < 0 || cfg.Port > 65535 {
		return nil, fmt.Errorf("broker: port %d: use 1 to 65535, or 0 for any", cfg.Port)
	}
	opts := &server.Options{
		ServerName: "penstock", Host: cfg.Host, Port: cfg.Port,
		JetStream: true, StoreDir: cfg.Store, NoSigs: true, NoLog: cfg.Log == nil,
		// A folder of a few megabytes: a nearly full disk shows as failing writes, not as a refused stream.
		JetStreamMaxStore: 1 << 40, JetStreamMaxMemory: 1 << 30,
	}
	if err := cfg.protect(opts); err != nil {
		return nil, err
	}
	if cfg.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	switch cfg.Sync {
	case "", "default":
	case "always":
		opts.SyncAlways = true
	default:
		return nil, fmt.Errorf("broker: sync %q: use default or always", cfg.Sync)
	}
	return opts, nil
}

// protect lets in those whose keys are in the folder, over TLS where there is a certificate.
func (cfg ServerConfig) protect(opts *server.Options) error {
	if cfg.Keys != "" {
		err := MakeKeys(cfg.Keys)
		if err == nil {
			opts.Nkeys, err = users(cfg.Keys)
		}
		if err != nil {
			return fmt.Errorf("broker: %w", err)
		}
	}
	if cfg.TLSCert == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey)
	if err != nil {
		return fmt.Errorf("broker: certificate: %w", err)
	}
	opts.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	opts.TLS = true
	opts.TLSTimeout = tryTimeout.Seconds()
	return nil
}

// Loopback reports whether only this machine reaches a host.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (cfg ServerConfig) warn(err error) {
	if cfg.Log != nil {
		cfg.Log(err.Error())
	}
}

// access is that of the server's own client.
func (cfg ServerConfig) access() Access {
	if cfg.Keys == "" {
		return Access{CA: cfg.CA}
	}
	return Access{Role: RoleBroker, Key: KeyFile(cfg.Keys, RoleBroker), CA: cfg.CA}
}

func (s *Server) start(ctx context.Context, opts *server.Options) error {
	addr := net.JoinHostPort(s.cfg.Host, strconv.Itoa(s.cfg.Port))
	// The server's own attempt fails only after its start-up, and says so in its log alone.
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("broker: %s is in use by another process; set broker.port to a free port, or to 0 for any", addr)
	} else if err != nil {
		return fmt.Errorf("broker: listen on %s: %w", addr, err)
	}
	if err := l.Close(); err != nil {
		return fmt.Errorf("broker: listen on %s: %w", addr, err)
	}
	if s.ns, err = server.NewServer(opts); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	log := &lines{to: s.cfg.Log}
	s.ns.SetLoggerV2(log, false, false, false)
	s.ns.Start()
	if !s.ns.ReadyForConnections(readyTimeout) {
		return fmt.Errorf("broker: not ready on %s after %v: %s", addr, readyTimeout, log.lastError())
	}
	if !s.ns.JetStreamEnabled() {
		return fmt.Errorf("broker: JetStream does not start on store %q: %s", s.cfg.Store, log.lastError())
	}
	c, err := Dial(ctx, s.URL(), "broker", Options{Access: s.cfg.access(), OnError: s.cfg.warn})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := errors.Join(c.EnsureTopology(ctx), c.mendConsumers(ctx)); err != nil {
		return err
	}
	if s.cfg.URLFile != "" {
		return writeURL(s.cfg.URLFile, s.URL())
	}
	return nil
}

// URL is what a client dials.
func (s *Server) URL() string { return s.ns.ClientURL() }

// Stored returns how many messages each stream holds. It is empty while the server starts or stops.
func (s *Server) Stored() map[string]uint64 {
	out := map[string]uint64{}
	z, err := s.ns.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil {
		return out
	}
	for _, a := range z.AccountDetails {
		for _, stream := range a.Streams {
			out[stream.Name] = stream.State.Msgs
		}
	}
	return out
}

// Close stops the server and waits until its store is on disk.
func (s *Server) Close() {
	if s.ns != nil {
		s.ns.Shutdown()
		s.ns.WaitForShutdown()
	}
	_ = s.lock.Close()
}

// Wait returns when the server has stopped, by Close or by its own fault, or when ctx ends.
func (s *Server) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { s.ns.WaitForShutdown(); close(done) }() // ends with Close at the latest
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lockStore keeps a second server off the store: two of them would destroy it. A killed holder's lock is free at once.
func lockStore(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("broker store: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("broker store %q is in use by another broker: %w", dir, err)
	}
	return f, nil
}

// writeURL replaces the file as a whole, so that a reader sees one URL or the other.
func writeURL(path, url string) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(url+"\n"), 0o600); err != nil {
		return fmt.Errorf("broker URL: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("broker URL: %w", err)
	}
	return nil
}

// ReadURL reads what a broker wrote to its URLFile.
func ReadURL(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("broker URL: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
