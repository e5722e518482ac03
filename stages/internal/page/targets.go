package page

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
)

// targets lists the processes that answer Prometheus, this one included, as its HTTP service discovery reads them. One that
// listens at every address of its host is listed at the address by which the page was asked.
func (c *Collector) targets(w http.ResponseWriter, r *http.Request) {
	urls, err := c.dir.MetricsURLs()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	groups := []group{{[]string{r.Host}, map[string]string{}}}
	for _, url := range urls {
		groups[0].Targets = append(groups[0].Targets, reachable(strings.TrimPrefix(url, "http://"), r.Host))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(groups) // the client is gone if this fails
}

// reachable returns an address with the host of another if its own says only that it is every one.
func reachable(address, by string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return address
	}
	if host, _, err = net.SplitHostPort(by); err != nil {
		host = by
	}
	return net.JoinHostPort(host, port)
}
