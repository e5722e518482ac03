package doctor

import (
	"errors"
	"net"
	"strconv"
	"syscall"

	"penstock/schema"
)

// checkListen tries the addresses that a run's processes bind.
func checkListen(c *Checks, cfg schema.Config) {
	if cfg.Broker.URL == "" {
		checkAddress(c, "broker", cfg.Broker.Host, cfg.Broker.Port)
	}
	checkAddress(c, "page", cfg.Page.Host, cfg.Page.Port)
	first, last := cfg.Metrics.Port, cfg.Metrics.Port
	if first > 0 {
		last = first + cfg.Processes() - 1
	}
	for port := first; port <= last; port++ {
		if !checkAddress(c, "metrics", cfg.Metrics.Host, port) {
			return
		}
	}
}

// checkAddress binds group.host and group.port for a moment. Any free port is good, and not worth a line.
func checkAddress(c *Checks, group, host string, port int) bool {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		c.bad(group+".port", "%s is in use by another process: set another port, or 0 for any free one", addr)
	case err != nil:
		c.bad(group+".host", "%s cannot be bound: %v: name an address of this machine, such as 127.0.0.1", host, err)
	default:
		l.Close()
		if port != 0 {
			c.good(group+".port", "%s is free", addr)
		}
	}
	return err == nil
}
