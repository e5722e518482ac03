package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"penstock/schema"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/rundir"
)

const (
	mpsControl = "nvidia-cuda-mps-control"
	mpsPipes   = "CUDA_MPS_PIPE_DIRECTORY"  // names the service to its clients
	mpsFirst   = "CUDA_MPS_CLIENT_PRIORITY" // of a client's kernels: 0 normal, 1 below
	mpsWait    = 5 * time.Second            // it answers, or ends, in this time
	mpsFault   = 20 * time.Second           // and those that have failed with another, in this one
	mpsLook    = 50 * time.Millisecond
	mpsTell    = 100 * time.Millisecond // between the end of who tells it something and the end of its answer
)

// mps is NVIDIA's Multi-Process Service: kernels of several processes run on a GPU at the same time, and their copies do
// not take turns with them.
type mps struct {
	cmd   *exec.Cmd
	dir   string
	held  *os.File // the directory, locked as long as this process lives
	ended chan struct{}
}

// startMPS starts the service for the processes of a run that share a GPU, or returns nil and why it does not.
func startMPS(ctx context.Context, cfg schema.Config, dir *rundir.Dir) (m *mps, why string) {
	if !backend.IsGPU(cfg.Device) {
		return nil, ""
	}
	if at := os.Getenv(mpsPipes); at != "" {
		return nil, "the stages use the Multi-Process Service at " + at
	}
	if !cfg.MPS {
		return nil, "the stages take turns on the GPU: mps is off"
	}
	path, err := exec.LookPath(mpsControl)
	if err != nil {
		return nil, "the stages take turns on the GPU: " + mpsControl + " is not there"
	}
	log, err := os.OpenFile(dir.Log("mps"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err.Error()
	}
	defer log.Close()
	pipes, held, err := makePipes()
	if err != nil {
		return nil, err.Error()
	}
	m = &mps{cmd: exec.Command(path, "-f"), dir: pipes, held: held, ended: make(chan struct{})}
	// The processes' own numbers of GPUs count from those that the service sees: it sees all.
	m.cmd.Env = append(without(os.Environ(), "CUDA_VISIBLE_DEVICES"), m.env(), "CUDA_MPS_LOG_DIRECTORY="+pipes)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	// An interrupt typed at the terminal reaches `up` alone; what kills `up` ends the service too.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := m.start(); err != nil {
		m.clear()
		return nil, fmt.Sprintf("the stages take turns on the GPU: %v", err)
	}
	if err := m.await(ctx); err != nil {
		m.stop()
		return nil, fmt.Sprintf("the stages take turns on the GPU: the Multi-Process Service does not start: %v (logs in %s)", err, filepath.Dir(dir.Log("mps")))
	}
	return m, "the stages share the GPU through the Multi-Process Service"
}

// start starts the process on a thread that stays as long as it does: the kernel takes the thread's end for the parent's.
func (m *mps) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := m.cmd.Start()
		started <- err
		if err == nil {
			_ = m.cmd.Wait()
			close(m.ended)
		}
	}()
	return <-started
}

// without returns an environment without a variable.
func without(env []string, name string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

// env is the variable by which a process finds the service.
func (m *mps) env() string { return mpsPipes + "=" + m.dir }

// client is the environment of a stage's process. Where a drafter shares a GPU, the others' kernels go first: how far they run ahead
// is bounded by slots and credit, and what they make keeps every other drafter busy. Who has set a priority keeps it.
func (m *mps) client(instance string) []string {
	env := []string{m.env()}
	if _, set := os.LookupEnv(mpsFirst); !set && strings.HasPrefix(instance, "draft") {
		env = append(env, mpsFirst+"=1")
	}
	return env
}

// await waits until the service answers and has a server, which its clients would otherwise wait for, or fail without.
func (m *mps) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, mpsWait)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for asked := false; ; {
		if _, err := os.Stat(filepath.Join(m.dir, "control")); err == nil {
			if !asked {
				_, err = m.tell(ctx, fmt.Sprintf("start_server -uid %d", os.Getuid()))
				asked = err == nil
			}
			if asked && m.serves(ctx) {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-m.ended:
			return fmt.Errorf("it has ended: %v", m.cmd.ProcessState)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// recovered returns once the service's server is in no fault, nor on its way out of one: until all that have failed with the one that
// caused it have ended, it takes no client. It waits for that so long, and no longer. A service that is busy with it may not answer.
func (m *mps) recovered(ctx context.Context) {
	if m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, mpsFault)
	defer cancel()
	tick := time.NewTicker(mpsLook)
	defer tick.Stop()
	for {
		status, err := m.status(ctx)
		if err == nil && !refuses(status) {
			return
		}
		select {
		case <-tick.C:
		case <-m.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// serves reports whether a server takes clients.
func (m *mps) serves(ctx context.Context) bool {
	status, err := m.status(ctx)
	return err == nil && status != "" && !refuses(status)
}

// refuses reports whether a server that is there takes no client yet.
func refuses(status string) bool {
	return strings.Contains(status, "INITIALIZING") || strings.Contains(status, "FAULT")
}

// status is what the service says of its server; "" if it has none.
func (m *mps) status(ctx context.Context) (string, error) {
	servers, err := m.tell(ctx, "get_server_list")
	if err != nil || len(strings.Fields(servers)) == 0 {
		return "", err
	}
	return m.tell(ctx, "get_server_status "+strings.Fields(servers)[0])
}

// tell gives the service a command and returns its answer.
func (m *mps) tell(ctx context.Context, command string) (string, error) {
	c := exec.CommandContext(ctx, m.cmd.Path)
	c.Env, c.Stdin = append(os.Environ(), m.env()), strings.NewReader(command+"\n")
	c.WaitDelay = mpsTell // what it has started itself, where it is a script, may keep the pipes open
	answer, err := c.Output()
	return string(answer), err
}

// stop ends the service. Its clients have ended.
func (m *mps) stop() {
	if m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), mpsWait)
	defer cancel()
	if _, err := m.tell(ctx, "quit"); err == nil {
		select {
		case <-m.ended:
		case <-ctx.Done():
		}
	}
	_ = m.cmd.Process.Kill() // nothing if it has ended
	<-m.ended
	m.clear()
}

// clear removes the service's directory.
func (m *mps) clear() {
	_ = os.RemoveAll(m.dir)
	_ = m.held.Close()
}
