// Package rundir knows the run directory: every name in it, how it is found, created and locked, and how its
// small files are written. Whatever several processes of one run share by path is named here and nowhere else.
//
//	name             the run's name on the wire
//	config.yaml      the resolved configuration, written once
//	lock, locks/     held by `penstock up` and by each running instance
//	lead             held by the trainer that opens generations and writes the files below
//	nats.url         where the broker listens; written by the broker when it is ready
//	keys/            the keys of the broker's users; nobody else may enter it
//	observer/        a context for the NATS command line tool that may only read
//	pids.json        instance name to process id
//	metrics/         where each running instance answers Prometheus
//	page.url         where `penstock up` shows the run
//	generation       the last generation opened
//	broker/          the broker's JetStream store
//	store/           prepared token stores, unless data.store names another folder
//	journal/         slot journals, one per instance
//	sock/            sockets that pass slab descriptors
//	checkpoints/     training checkpoints
//	drafter/         the exported drafter
//	ledger           JSON lines of committed windows
//	metrics.jsonl    JSON lines, one per committed window
//	events/          the same for TensorBoard
//	report.html      the finished run to look at
//	summary.json     the finished run
//	logs/            one log per instance
package rundir

import (
	"fmt"
	"os"
	"path/filepath"
)

// Dir is one run's directory. The zero value is not usable: see Create, Open and Newest.
type Dir struct {
	path string // absolute
	name string // on the wire
	made *made  // what was there before; nil where the directory was opened
}

// Path returns the directory's absolute path.
func (d *Dir) Path() string { return d.path }

// Name returns the run's name on the wire: what the directory was called when it was made, and a random part. It stays
// where the directory is moved, and no other run has it.
func (d *Dir) Name() string { return d.name }

func (d *Dir) join(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

// ConfigFile holds the resolved configuration; see WriteConfig.
func (d *Dir) ConfigFile() string { return d.join("config.yaml") }

// URLFile holds the broker's address; see WriteURL.
func (d *Dir) URLFile() string { return d.join("nats.url") }

// PIDFile holds the process ids; see WritePIDs.
func (d *Dir) PIDFile() string { return d.join("pids.json") }

// GenerationFile holds the last generation opened; see WriteGeneration.
func (d *Dir) GenerationFile() string { return d.join("generation") }

// Ledger is the file that mirrors the ledger stream's commits.
func (d *Dir) Ledger() string { return d.join("ledger") }

// Metrics is the file of one JSON line per committed window.
func (d *Dir) Metrics() string { return d.join("metrics.jsonl") }

// Summary is the finished run's summary.
func (d *Dir) Summary() string { return d.join("summary.json") }

// Events is the folder of TensorBoard event files.
func (d *Dir) Events() string { return d.join("events") }

// Report is the finished run as a page.
func (d *Dir) Report() string { return d.join("report.html") }

// PageFile holds the address of the run's page; see WritePage.
func (d *Dir) PageFile() string { return d.join("page.url") }

// MetricsFile holds the address at which an instance answers Prometheus; see WriteMetrics.
func (d *Dir) MetricsFile(instance string) string { return d.join("metrics", instance) }

// Checkpoints is the folder of training checkpoints.
func (d *Dir) Checkpoints() string { return d.join("checkpoints") }

// Drafter is the folder of the exported drafter.
func (d *Dir) Drafter() string { return d.join("drafter") }

// BrokerStore is the folder of the embedded broker's JetStream data.
func (d *Dir) BrokerStore() string { return d.join("broker") }

// Stores is the folder of prepared token stores when the configuration names none.
func (d *Dir) Stores() string { return d.join("store") }

// Journal is the instance's mapped slot journal.
func (d *Dir) Journal(instance string) string { return d.join("journal", instance) }

// Log is the instance's log.
func (d *Dir) Log(instance string) string { return d.join("logs", instance+".log") }

// Keys is the folder of the keys of the broker's users; only the owner may enter it.
func (d *Dir) Keys() string { return d.join("keys") }

// Observer is a folder of contexts, as XDG_CONFIG_HOME names one, for the NATS command line tool.
func (d *Dir) Observer() string { return d.join("observer") }

// Sockets is the folder of the sockets that pass slab descriptors; only the owner may enter it.
func (d *Dir) Sockets() string { return d.join("sock") }

var folders = []string{"logs", "locks", "journal", "sock", "checkpoints", "metrics"}

// make creates the directory and the folders in it that several processes write to.
func (d *Dir) make() error {
	for _, sub := range folders {
		mode := os.FileMode(0o755)
		if sub == "sock" {
			mode = 0o700
		}
		if err := os.MkdirAll(d.join(sub), mode); err != nil {
			return fmt.Errorf("create run directory: %w", err)
		}
	}
	return d.christen()
}
