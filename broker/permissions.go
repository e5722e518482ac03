package broker

import (
	"slices"

	"github.com/nats-io/nats-server/v2/server"
)

// Roles are the users of the embedded server, each with a key of its own and the least that it needs.
const (
	RoleBroker   = "broker"   // the server's own client: makes and mends the streams
	RoleBatch    = "batch"    // publishes roots and moves credit
	RoleTarget   = "target"   // takes roots, publishes captures
	RolePack     = "pack"     // takes captures, publishes features
	RoleDraft    = "draft"    // takes features, writes the ledger, opens generations
	RoleUp       = "up"       // the supervisor and `penstock stop`
	RoleObserver = "observer" // reads, and changes nothing
)

// Roles lists them all.
var Roles = []string{RoleBroker, RoleBatch, RoleTarget, RolePack, RoleDraft, RoleUp, RoleObserver}

// permissions are the subjects that a role may publish on; what it may read goes with them. A client subscribes to
// nothing but its own inbox: records are pulled.
func permissions(role string) *server.Permissions {
	api := func(calls ...string) (subjects []string) {
		for _, c := range calls {
			subjects = append(subjects, "$JS.API."+c)
		}
		return subjects
	}
	reads := func(stream string) []string {
		return api("CONSUMER.CREATE."+stream+".>", "CONSUMER.DELETE."+stream+".*", "CONSUMER.MSG.NEXT."+stream+".*",
			"DIRECT.GET."+stream, "DIRECT.GET."+stream+".>", "STREAM.MSG.GET."+stream)
	}
	takes := func(stream string) []string {
		return append(api("CONSUMER.MSG.NEXT."+stream+".*"), "$JS.ACK."+stream+".>")
	}
	owns := takes("PS_REL") // a pool's releases
	owns = append(owns, append(api("CONSUMER.CREATE.PS_REL.>"), "ps.board.pool.*")...)
	roots := "$JS.ACK.PS_FWD.>" // a root is marked, handed back or acknowledged from anywhere
	worker := append(append(reads("PS_LEDGER"), reads("PS_BOARD")...), "ps.board.stage.*", "ps.board.note.*")
	look := api("INFO", "STREAM.INFO.*", "CONSUMER.INFO.*.*")

	var pub, deny, sub []string
	switch role {
	case RoleBroker:
		pub = append(api(">"), "ps.>")
	case RoleBatch:
		pub = slices.Concat(look, worker, []string{"ps.fwd.*", "ps.board.plan", "ps.board.bucket.*"},
			api("DIRECT.GET.PS_FWD", "DIRECT.GET.PS_FWD.>", "STREAM.MSG.GET.PS_FWD", "CONSUMER.CREATE.PS_FWD.>", "CONSUMER.RESET.PS_FWD.*", "CONSUMER.RESET.PS_PACK.*", "CONSUMER.RESET.PS_TRAIN.*"))
	case RoleTarget:
		pub = slices.Concat(look, worker, owns, takes("PS_FWD"), []string{"ps.pack.*"})
	case RolePack:
		pub = slices.Concat(look, worker, owns, takes("PS_PACK"), []string{roots, "ps.train.*", "ps.rel.*", "ps.ledger.*.*.*"})
		deny = []string{"ps.ledger.*.*.ctl"}
	case RoleDraft:
		pub = slices.Concat(look, worker, owns, takes("PS_TRAIN"), []string{roots, "ps.rel.*", "ps.ledger.>", "ps.board.progress", "ps.board.join.*"},
			api("STREAM.UPDATE.PS_FWD", "STREAM.PURGE.PS_FWD", "STREAM.PURGE.PS_PACK", "STREAM.PURGE.PS_TRAIN", "STREAM.PURGE.PS_REL", "STREAM.PURGE.PS_BOARD", "CONSUMER.RESET.PS_TRAIN.*"))
		for _, s := range []string{"PS_FWD", "PS_PACK", "PS_TRAIN"} {
			pub = append(pub, api("CONSUMER.NAMES."+s, "CONSUMER.DELETE."+s+".*", "CONSUMER.CREATE."+s+".>")...)
		}
	case RoleUp:
		pub = slices.Concat(look, reads("PS_LEDGER"), reads("PS_BOARD"), []string{"$JS.ACK.>", "ps.board.control", "ps.ledger.*.*.ctl"},
			api("STREAM.PURGE.PS_BOARD", "CONSUMER.RESET.*.*"))
	case RoleObserver:
		pub = slices.Concat(look, reads("PS_LEDGER"), reads("PS_BOARD"), api("STREAM.NAMES", "STREAM.LIST", "CONSUMER.NAMES.*", "CONSUMER.LIST.*"))
		sub = []string{"ps.>", "$JS.EVENT.>"}
	}
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: pub, Deny: deny},
		Subscribe: &server.SubjectPermission{Allow: append(sub, inboxOf(role)+".>")},
	}
}

// inboxOf is where a role's clients get their answers; nobody else may listen there.
func inboxOf(role string) string { return "_INBOX_" + role }
