// Package cli is the penstock command: one file a subcommand.
package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
)

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// Main runs penstock with the process's arguments and returns its exit code: 0 only on success. A failure is one line
// on standard error.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process
	return run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
}

func run(ctx context.Context, args []string, io streams) int {
	root := newRoot(io)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(io.err, "%s: %s\n", cmd.CommandPath(), oneLine(err.Error()))
	return 1
}

func newRoot(io streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "penstock",
		Short: "Train speculative-decoding drafters through gated stages",
		Long: "penstock trains a DFlash drafter for a frozen target model: batches flow from one process to the next through\n" +
			"a broker that carries handles, never tensors.",
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	root.AddCommand(
		newUp(io), newStatus(io), newStop(io), newPrepare(io), newRegen(io), newLedger(io), newVerify(io), newEval(io),
		newExport(io), newBench(io), newDoctor(io), newDecode(io), newSim(io),
	)
	return root
}

// group is the parent of subcommands: called without one, or with an unknown one, it is an error.
func group(cmd *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(subs...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var names []string
		for _, s := range subs {
			names = append(names, s.Name())
		}
		return fmt.Errorf("name one of %s", strings.Join(names, ", "))
	}
	return cmd
}

// openRun returns the run that --run names, or the newest.
func openRun(f runtime.Flags) (*rundir.Dir, error) {
	if f.Run != "" {
		return rundir.Open(f.Run)
	}
	return rundir.Newest(rundir.Root)
}

// printJSON writes v as one line.
func printJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// oneLine joins the lines of a message that lists several problems.
func oneLine(s string) string {
	var parts []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}

// hide leaves flags out of the help that a command shares with others and refuses.
func hide(cmd *cobra.Command, flags ...string) {
	for _, f := range flags {
		cmd.Flags().Lookup(f).Hidden = true
	}
}

// must marks flags that have no default.
func must(cmd *cobra.Command, flags ...string) {
	for _, f := range flags {
		if err := cmd.MarkFlagRequired(f); err != nil {
			panic(err) // a flag that is not there
		}
	}
}
