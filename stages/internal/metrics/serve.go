package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server answers Prometheus, and whoever else asks under the same address.
type Server struct {
	http *http.Server
	url  string
	done chan error
}

// Handler answers a scrape.
func (s *Set) Handler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Serve listens on host and port, 0 for any free one, until Close. /metrics is always there, more paths are the
// caller's.
func (s *Set) Serve(host string, port int, more map[string]http.Handler) (*Server, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, fmt.Sprint(port)))
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w (metrics.port 0 takes any free one)", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", s.Handler())
	for path, h := range more {
		mux.Handle(path, h)
	}
	srv := &Server{http: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, url: "http://" + l.Addr().String(), done: make(chan error, 1)}
	go func() { srv.done <- srv.http.Serve(l) }()
	return srv, nil
}

// URL is the address without a path.
func (s *Server) URL() string { return s.url }

// Close ends the server and every request to it.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	if serr := <-s.done; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}
