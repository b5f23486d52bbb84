package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// nowhere is an address without a listener. Servers that all advertise it, and have it among their peers, take it for their own, and look
// for no other way to each other than the other peers.
const nowhere = "127.0.0.1:1"

// links are a network in which each server reaches every other one through a separate proxy.
type links struct {
	control *toxiproxy.ApiServer
	proxies [size][size]*toxiproxy.Proxy // [from][to], the connections that from has made
}

func newLinks(t *testing.T, listen []string) (*links, error) {
	l := &links{control: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())}
	t.Cleanup(l.stop)
	for from := range size {
		for to := range size {
			if from != to {
				if err := l.start(from, to, "127.0.0.1:0", listen[to]); err != nil {
					return nil, err
				}
			}
		}
	}
	return l, nil
}

func (l *links) start(from, to int, listen, server string) error {
	p := toxiproxy.NewProxy(l.control, "", listen, server)
	if err := p.Start(); err != nil {
		return err
	}
	l.proxies[from][to] = p
	return nil
}

// restart waits while a connection that goes out has the port.
func (l *links) restart(from, to int, p *toxiproxy.Proxy) (err error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 500 {
		if err = l.start(from, to, p.Listen, p.Upstream); err == nil {
			return nil
		}
		<-tick.C
	}
	return err
}

func (l *links) stop() {
	for from := range size {
		for _, p := range l.proxies[from] {
			if p != nil {
				p.Stop()
			}
		}
	}
}

func (l *links) peers(node int) (advertise string, peers []string) {
	peers = []string{nowhere}
	for _, p := range l.proxies[node] {
		if p != nil {
			peers = append(peers, p.Listen)
		}
	}
	return nowhere, peers
}

// cut is not noticed at once. Connections stay, and requests get no response.
func (l *links) cut(from, to int) error {
	var errs []error
	for p, direction := range map[*toxiproxy.Proxy]string{l.proxies[from][to]: "upstream", l.proxies[to][from]: "downstream"} {
		_, err := p.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"type":"timeout","stream":%q,"attributes":{"timeout":0}}`, direction)))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// heal breaks the connections from which something is missing, and servers make them again.
func (l *links) heal() error {
	var errs []error
	for from := range size {
		for to, p := range l.proxies[from] {
			if p != nil && len(p.Toxics.GetToxicArray()) > 0 {
				p.Stop()
				errs = append(errs, l.restart(from, to, p))
			}
		}
	}
	return errors.Join(errs...)
}
