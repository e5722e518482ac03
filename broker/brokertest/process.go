package brokertest

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"penstock/broker"
)

// role tells a re-executed test binary to be a server; its arguments follow.
const role = "PENSTOCK_BROKERTEST_ROLE"

// Main runs a package's tests, or, in a process that Process or External started, the server. A package that uses
// those calls it from TestMain: os.Exit(brokertest.Main(m)).
func Main(m *testing.M) int {
	var err error
	switch os.Getenv(role) {
	case "embedded":
		err = serveEmbedded(os.Args[1], os.Args[2], os.Args[3])
	case "nats-server":
		err = serveExternal(os.Args[1:])
	default:
		return m.Run()
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// Process is a server in a process of its own.
type Process struct {
	Broker
	cmd  *exec.Cmd
	args []string
	kind string
}

// StartProcess runs the embedded server in a process of its own, on a fixed port, until the test ends.
func StartProcess(t testing.TB, sync string) *Process {
	return launch(t, "embedded", t.TempDir(), strconv.Itoa(freePort(t)), sync)
}

// StartExternal runs a plain nats-server with JetStream, as its own command line sets it up, until the test ends.
func StartExternal(t testing.TB) *Process { return startExternal(t, "-js", "-sd", t.TempDir()) }

// StartWithoutJetStream runs a plain nats-server that cannot store anything.
func StartWithoutJetStream(t testing.TB) *Process { return startExternal(t) }

func startExternal(t testing.TB, args ...string) *Process {
	return launch(t, "nats-server", append([]string{"-a", "127.0.0.1", "-p", strconv.Itoa(freePort(t))}, args...)...)
}

func launch(t testing.TB, kind string, args ...string) *Process {
	t.Helper()
	p := &Process{Broker: Broker{t: t}, kind: kind, args: args}
	p.Restart()
	t.Cleanup(p.Kill)
	return p
}

// Restart starts the server again on the same store and port.
func (p *Process) Restart() {
	p.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd = exec.Command(exe, p.args...)
	p.cmd.Env = append(os.Environ(), role+"="+p.kind)
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		p.t.Fatalf("start %s: %v", p.kind, err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.t.Fatalf("%s says nothing: %v", p.kind, err)
	}
	p.URL = strings.TrimSpace(line)
}

// Freeze stops the server without ending it, until Thaw.
func (p *Process) Freeze() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	if _, err := syscall.Wait4(p.cmd.Process.Pid, nil, syscall.WUNTRACED, nil); err != nil {
		p.t.Fatalf("wait until %s is frozen: %v", p.kind, err)
	}
}

// Thaw lets a frozen server go on.
func (p *Process) Thaw() { p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%v to %s: %v", s, p.kind, err)
	}
}

// Kill ends the server by SIGKILL.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.cmd.Wait()
}

func serveEmbedded(dir, port, sync string) error {
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	s, err := broker.StartServer(context.Background(), broker.ServerConfig{
		Host: "127.0.0.1", Port: n, Store: filepath.Join(dir, "store"), Sync: sync,
	})
	if err != nil {
		return err
	}
	fmt.Println(s.URL())
	return s.Wait(context.Background())
}

// serveExternal does what the nats-server command does with its arguments.
func serveExternal(args []string) error {
	none := func() {}
	opts, err := server.ConfigureOptions(flag.NewFlagSet("nats-server", flag.ContinueOnError), args, none, none, none)
	if err != nil {
		return err
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(Patience) {
		return fmt.Errorf("nats-server is not ready on port %d", opts.Port)
	}
	fmt.Println(s.ClientURL())
	s.WaitForShutdown()
	return nil
}

// freePort finds a port that a server can come back to after a kill.
func freePort(t testing.TB) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
