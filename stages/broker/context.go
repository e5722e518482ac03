package broker

import (
	"fmt"
	"os"
	"path/filepath"

	nats "penstock/broker"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
)

// writeContext leaves what `nats --context observer` needs to look at the run: an address and the key of a user that may
// read and change nothing.
func writeContext(env *runtime.Env, url string) error {
	folder := filepath.Join(env.Run.Observer(), "nats", "context")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("observer context: %w", err)
	}
	return rundir.WriteJSON(filepath.Join(folder, "observer.json"), map[string]string{
		"description":  "reads run " + env.Run.Name(),
		"url":          url,
		"nkey":         nats.KeyFile(env.Run.Keys(), nats.RoleObserver),
		"ca":           env.Config.Broker.TLSCA,
		"inbox_prefix": "_INBOX_" + nats.RoleObserver + ".cli",
	})
}
