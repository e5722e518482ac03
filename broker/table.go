package broker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Table is the topology as a table of Markdown, from the streams and the permissions in force: what each stream carries,
// who may put it there, and who may take it, in the order of the flow.
func Table() string {
	var b strings.Builder
	b.WriteString("| stream | subjects | carries | from | to | kept |\n|---|---|---|---|---|---|\n")
	for _, s := range streams {
		kept := "for ever"
		switch {
		case s.Retention == jetstream.WorkQueuePolicy:
			kept = "until acknowledged"
		case s.MaxMsgsPerSubject == 1:
			kept = "the last of each subject"
		}
		prefix := strings.TrimRight(s.Subjects[0], "*>")
		from := rolesThat(func(allowed string) bool { return strings.HasPrefix(allowed, prefix) })
		to := rolesThat(func(allowed string) bool {
			return strings.HasPrefix(allowed, "$JS.API.CONSUMER.MSG.NEXT."+s.Name+".")
		})
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s | %s |\n", s.Name, s.Subjects[0], s.Description, from, to, kept)
	}
	return b.String()
}

// rolesThat lists the roles of which some permission to publish fits, but for the broker's own client and the
// observer, which is no part of the flow.
func rolesThat(fits func(allowed string) bool) string {
	var roles []string
	for _, r := range Roles {
		if r != RoleBroker && r != RoleObserver && slices.ContainsFunc(permissions(r).Publish.Allow, fits) {
			roles = append(roles, r)
		}
	}
	return strings.Join(roles, ", ")
}
