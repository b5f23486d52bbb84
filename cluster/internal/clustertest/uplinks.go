package clustertest

import (
	"errors"
	"fmt"
	"strings"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Uplinks are the network between nodes and servers that run on their own. Each node reaches each server through a separate proxy. One
// goroutine may change them.
type Uplinks struct{ links Links }

// NewUplinks returns the network of nodes to servers, whose addresses for clients are given.
func NewUplinks(servers []string) (*Uplinks, error) {
	u := &Uplinks{Links{control: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())}}
	for node := range Size {
		for server := range Size {
			if err := u.links.start(node, server, "127.0.0.1:0", servers[server]); err != nil {
				u.Close()
				return nil, err
			}
		}
	}
	return u, nil
}

// Addresses returns where a node reaches the servers.
func (u *Uplinks) Addresses(node int) (addresses []string) {
	for _, p := range u.links.proxies[node] {
		addresses = append(addresses, p.Listen)
	}
	return addresses
}

// Cut swallows the data that a node and a server send to each other. Neither notices. Their connection stays.
func (u *Uplinks) Cut(node, server int) error {
	var errs []error
	for _, direction := range []string{"upstream", "downstream"} {
		_, err := u.links.proxies[node][server].Toxics.AddToxicJson(strings.NewReader(
			fmt.Sprintf(`{"type":"timeout","stream":%q,"attributes":{"timeout":0}}`, direction)))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Heal ends what Cut did, and breaks the connections that were cut.
func (u *Uplinks) Heal() error { return u.links.Heal() }

// Close ends all proxies.
func (u *Uplinks) Close() { u.links.Close() }
