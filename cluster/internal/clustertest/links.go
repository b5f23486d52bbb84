package clustertest

import (
	"errors"
	"fmt"
	"strings"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// nowhere is an address on which no process listens. Servers that all advertise it, and have it among their peers, take it for their own, and look
// for no other way to each other than the other peers.
const nowhere = "127.0.0.1:1"

// Links are the network between the servers of a cluster. Each server reaches each other one through a separate proxy. One goroutine may
// change them.
type Links struct {
	control *toxiproxy.ApiServer
	proxies [Size][Size]*toxiproxy.Proxy // [from][to]: connections that from has made
}

// NewLinks returns the network of servers that listen on the addresses.
func NewLinks(listen []string) (*Links, error) {
	l := &Links{control: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())}
	for from := range Size {
		for to := range Size {
			if from == to {
				continue
			}
			if err := l.start(from, to, "127.0.0.1:0", listen[to]); err != nil {
				l.Close()
				return nil, err
			}
		}
	}
	return l, nil
}

func (l *Links) start(from, to int, listen, server string) error {
	return Eventually(func() error { // a connection that goes out may have the port for a moment
		p := toxiproxy.NewProxy(l.control, "", listen, server)
		if err := p.Start(); err != nil {
			return err
		}
		l.proxies[from][to] = p
		return nil
	})
}

// Peers returns what server i advertises, and its peers.
func (l *Links) Peers(i int) (advertise string, peers []string) {
	peers = []string{nowhere}
	for _, p := range l.proxies[i] {
		if p != nil {
			peers = append(peers, p.Listen)
		}
	}
	return nowhere, peers
}

// Cut swallows the data that one server sends to another. Neither notices. Their connections stay.
func (l *Links) Cut(from, to int) error { return l.disturb(from, to, "timeout", `{"timeout":0}`) }

// Delay lets everything that one server sends to a second one arrive later.
func (l *Links) Delay(from, to, milliseconds int) error {
	return l.disturb(from, to, "latency", fmt.Sprintf(`{"latency":%d}`, milliseconds))
}

// Slow lets so many kilobytes that one server sends to another pass in a second.
func (l *Links) Slow(from, to, kilobytes int) error {
	return l.disturb(from, to, "bandwidth", fmt.Sprintf(`{"rate":%d}`, kilobytes))
}

func (l *Links) disturb(from, to int, kind, attributes string) error {
	var errs []error
	for p, direction := range map[*toxiproxy.Proxy]string{l.proxies[from][to]: "upstream", l.proxies[to][from]: "downstream"} {
		_, err := p.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"type":%q,"stream":%q,"attributes":%s}`, kind, direction, attributes)))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Heal ends what Cut, Delay and Slow did. It breaks the connections that they changed. Servers make them again.
func (l *Links) Heal() error {
	var errs []error
	for from := range Size {
		for to, p := range l.proxies[from] {
			if p != nil && len(p.Toxics.GetToxicArray()) > 0 {
				p.Stop()
				// Not the same one again, because taking a delay away can block forever.
				errs = append(errs, l.start(from, to, p.Listen, p.Upstream))
			}
		}
	}
	return errors.Join(errs...)
}

// Close ends all proxies.
func (l *Links) Close() {
	for from := range Size {
		for _, p := range l.proxies[from] {
			if p != nil {
				p.Stop()
			}
		}
	}
}
