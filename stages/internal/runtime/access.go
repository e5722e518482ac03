package runtime

import (
	"os"

	"penstock/broker"
	"penstock/schema"
	"penstock/stages/internal/rundir"
)

// Access is how a client of a run proves to its broker that it has a role: by the run's key, or, to an external server, by
// the credentials that the configuration names: a file, or a folder of keys if it is another run's broker.
func Access(dir *rundir.Dir, cfg schema.Config, role string) broker.Access {
	a := broker.Access{Role: role, CA: cfg.Broker.TLSCA}
	given := cfg.Broker.Credentials
	info, err := os.Stat(given)
	switch {
	case cfg.Broker.URL == "":
		a.Key = broker.KeyFile(dir.Keys(), role)
	case err == nil && info.IsDir():
		a.Key = broker.KeyFile(given, role)
	default:
		a.Credentials = given
	}
	return a
}
