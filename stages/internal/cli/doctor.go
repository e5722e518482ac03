package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"penstock/schema"
	"penstock/schema/hf"
	"penstock/stages/internal/doctor"
	"penstock/stages/internal/geometry"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
)

func newDoctor(s streams) *cobra.Command {
	var f runtime.Flags
	var model, gpus string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check machine, configuration and memory, and report every problem at once",
		Long: "doctor checks what a run would need: the machine, what the configuration names, and memory by purpose and process.\n" +
			"With --geometry it plans for a model that is not there, with --gpus for devices that are not there.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDoctor(f, model, gpus, s.out, asJSON)
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().StringVar(&model, "geometry", "", "plan for a target of this `NAME`: one of "+fmt.Sprint(geometry.Names()))
	cmd.Flags().StringVar(&gpus, "gpus", "", "plan for GPUs, as in `8x141GiB`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// diagnosis is what doctor reports.
type diagnosis struct {
	OK     bool          `json:"ok"`
	Checks doctor.Checks `json:"checks"`
	Memory []doctor.Item `json:"memory"`
	Host   int64         `json:"host_bytes"`
	Device int64         `json:"device_bytes"`
}

func runDoctor(f runtime.Flags, model, gpus string, out io.Writer, asJSON bool) error {
	var fleet doctor.GPUs
	if gpus != "" {
		var err error
		if fleet, err = doctor.ParseGPUs(gpus); err != nil {
			return err
		}
	}
	var d diagnosis
	var t *hf.Target
	cfg, err := doctorConfig(f, model)
	if err != nil {
		return err
	}
	if gpus != "" {
		if cfg.Device, err = plannedDevice(cfg.Device, f.Device, gpus, fleet.N); err != nil {
			return err
		}
	}
	root := rundir.Root
	if f.Run != "" {
		root = filepath.Dir(f.Run)
	}
	d.Checks = doctor.Machine(cfg, root)
	if gpus == "" {
		d.Checks = append(append(d.Checks, doctor.Device(cfg)...), append(doctor.Links(cfg), doctor.Ranks(cfg)...)...)
	}
	if model != "" {
		m, err := geometry.Lookup(model)
		if err != nil {
			return err
		}
		t = m.Open()
	} else {
		var inputs doctor.Checks
		inputs, t = doctor.Inputs(cfg)
		d.Checks = append(d.Checks, inputs...)
	}
	if t != nil {
		if model == "" {
			defer t.Close()
		}
		d.Memory = doctor.Plan(cfg, t, nil)
		d.Host, d.Device = doctor.Total(d.Memory, false), doctor.Total(d.Memory, true)
		if gpus != "" {
			d.Checks = append(d.Checks, fleet.Fit(d.Memory)...)
		} else {
			d.Checks = append(d.Checks, append(doctor.Fits(d.Host), doctor.FitsGPU(cfg, d.Memory)...)...)
		}
	}
	problem := d.Checks.Err()
	d.OK = problem == nil
	if asJSON {
		err = printJSON(out, d)
	} else {
		err = printDiagnosis(out, d)
	}
	if err == nil && !d.OK {
		err = errors.New(summarise(d.Checks))
	}
	return err
}

// plannedDevice is the name of the n GPUs that --gpus gives. The configured device may be one of them, fewer, or none at all; an
// asked one, by --device, is on GPUs.
func plannedDevice(configured, asked, gpus string, n int) (string, error) {
	g, ok := schema.ParseGPUs(configured)
	switch {
	case !ok && asked != "":
		return "", fmt.Errorf("--gpus %s plans for GPUs, and --device %s is none: leave one of them out", gpus, asked)
	case !ok:
		g.N = 1
	case g.N > n:
		_, size, _ := strings.Cut(gpus, "x")
		return "", fmt.Errorf("device %s names %d GPUs, and --gpus %s gives %d: write --gpus %dx%s, or --device %s", configured, g.N, gpus, n, g.N, size, g.Sized(n))
	}
	return g.Sized(n), nil
}

// doctorConfig is the configuration to check: that of the flags, or for a named geometry the defaults around it. With a
// geometry, what a configuration names need not be there.
func doctorConfig(f runtime.Flags, model string) (schema.Config, error) {
	if model != "" && f.Config != "" {
		b, err := os.ReadFile(f.Config)
		if err != nil {
			return schema.Config{}, fmt.Errorf("configuration: %w", err)
		}
		return f.Parse(f.Config, b)
	}
	if model == "" {
		if f.Run != "" && f.Config == "" {
			dir, err := rundir.Open(f.Run)
			if err != nil {
				return schema.Config{}, err
			}
			return f.Resolve(dir)
		}
		return f.Load()
	}
	m, err := geometry.Lookup(model)
	if err != nil {
		return schema.Config{}, err
	}
	cfg := schema.Default()
	cfg.Target.Dir, cfg.Target.Taps = model, m.Taps
	cfg.Data.Files = []string{model}
	cfg.Draft.Layers, cfg.Draft.BlockSize = m.Layers, m.Block
	b, err := cfg.YAML()
	if err != nil {
		return cfg, err
	}
	return f.Parse("--geometry "+model, b)
}

func printDiagnosis(out io.Writer, d diagnosis) error {
	for _, c := range d.Checks {
		mark := "ok"
		if !c.OK {
			mark = "BAD"
		}
		fmt.Fprintf(out, "%-3s  %-20s %s\n", mark, c.Name, c.Detail)
	}
	if len(d.Memory) == 0 {
		return nil
	}
	fmt.Fprintf(out, "\n%-8s %3s  %-30s %10s  %10s\n", "process", "n", "memory for", "each", "all")
	for _, m := range d.Memory {
		where := ""
		if m.Device {
			where = "  device"
		}
		fmt.Fprintf(out, "%-8s %3d  %-30s %10s  %10s%s\n", m.Process, m.Instances, m.Purpose, doctor.Bytes(m.Bytes), doctor.Bytes(int64(m.Instances)*m.Bytes), where)
	}
	_, err := fmt.Fprintf(out, "%-8s %3s  %-30s %10s  %10s host\n%-8s %3s  %-30s %10s  %10s devices\n",
		"total", "", "", "", doctor.Bytes(d.Host), "", "", "", "", doctor.Bytes(d.Device))
	return err
}

// summarise is the error line: how many problems, and what they concern.
func summarise(c doctor.Checks) string {
	var names []string
	for _, k := range c {
		if !k.OK {
			names = append(names, k.Name)
		}
	}
	return fmt.Sprintf("%d of %d checks failed: %v", len(names), len(c), names)
}

// preflight checks what a new run's configuration names, before anything is written.
func preflight(cfg schema.Config) error {
	checks, t := doctor.Inputs(cfg)
	if t != nil {
		defer t.Close()
	}
	checks = append(checks, doctor.Machine(cfg, rundir.Root)...)
	if t != nil {
		checks = append(checks, doctor.FitsGPU(cfg, doctor.Plan(cfg, t, nil))...)
	}
	return append(checks, doctor.Device(cfg)...).Err()
}
