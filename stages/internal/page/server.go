package page

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"time"
)

//go:embed static
var embedded embed.FS

// files are the page's own: index.html, page.css and page.js.
var files = func() fs.FS {
	sub, err := fs.Sub(embedded, "static")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	return sub
}()

// Server shows a collector's states.
type Server struct {
	http *http.Server
	url  string
	done chan error
}

// Serve listens on host and port, 0 for any free one, until Close. metrics answers /metrics.
func Serve(c *Collector, host string, port int, metrics http.Handler) (*Server, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, fmt.Sprint(port)))
	if err != nil {
		return nil, fmt.Errorf("serve the page: %w (page.port 0 takes any free one)", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /api/state", func(w http.ResponseWriter, r *http.Request) {
		state, _ := c.Latest()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Write(state)
	})
	mux.HandleFunc("GET /api/targets", c.targets)
	mux.HandleFunc("GET /api/events", func(w http.ResponseWriter, r *http.Request) { events(ctx, c, w, r) })
	mux.Handle("GET /", withPolicy(http.FileServerFS(files)))
	s := &Server{http: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, url: "http://" + l.Addr().String(), done: make(chan error, 1)}
	s.http.RegisterOnShutdown(cancel)
	go func() { s.done <- s.http.Serve(l) }()
	return s, nil
}

// withPolicy has the browser take nothing from elsewhere.
func withPolicy(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; img-src 'self' data:")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-cache")
		h.ServeHTTP(w, r)
	})
}

// events sends each state as a server-sent event, the latest at once.
func events(ctx context.Context, c *Collector, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	for {
		state, changed := c.Latest()
		if _, err := fmt.Fprintf(w, "data: %s\n\n", state); err != nil {
			return // the reader is gone
		}
		if out.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-ctx.Done(): // the last state was published before, and may not have been sent
			if last, _ := c.Latest(); !bytes.Equal(last, state) {
				fmt.Fprintf(w, "data: %s\n\n", last)
			}
			return
		}
	}
}

// URL is the page's address. One at every address of the host is given as the loopback one.
func (s *Server) URL() string {
	return "http://" + reachable(strings.TrimPrefix(s.url, "http://"), "127.0.0.1") + "/"
}

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
