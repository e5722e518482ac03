package cli

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"penstock/schema"
	"penstock/stages/internal/rundir"
)

// reader ends a wait once it has read what it waits for.
type reader struct {
	want string
	end  context.CancelFunc
	text strings.Builder
}

func (r *reader) Write(b []byte) (int, error) {
	r.text.Write(b)
	if strings.Contains(r.text.String(), r.want) {
		r.end()
	}
	return len(b), nil
}

// TestAbsentServer: `up` says soon what it waits for, where nothing answers.
func TestAbsentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := "nats://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	dir, err := rundir.Make(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	said := &reader{want: "nats-server -js -p ", end: cancel}
	r := &running{dir: dir, cfg: schema.Default(), display: newDisplay(said), log: slog.New(slog.DiscardHandler)}
	r.cfg.Broker.URL = addr
	began := time.Now()
	if _, err := r.dial(ctx, addr); err == nil {
		t.Fatal("there is a server")
	}
	if took := time.Since(began); took > 20*time.Second || !strings.HasPrefix(said.text.String(), "waiting for a NATS server at "+addr) {
		t.Errorf("after %v it said %q", took, said.text.String())
	}
}
