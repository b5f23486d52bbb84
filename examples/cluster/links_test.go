package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
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
	listen  []string
	proxies map[[2]int]*toxiproxy.Proxy // from, to: the connections that from has made
}

func newLinks(t *testing.T, listen []string) (*links, error) {
	l := &links{
		control: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()),
		listen:  listen, proxies: make(map[[2]int]*toxiproxy.Proxy),
	}
	t.Cleanup(l.stop)
	for from := range listen {
		for to := range listen {
			if from != to {
				if err := l.begin([2]int{from, to}, "127.0.0.1:0", listen[to]); err != nil {
					return nil, err
				}
			}
		}
	}
	return l, nil
}

func (l *links) begin(link [2]int, listen, server string) error {
	p := toxiproxy.NewProxy(l.control, "", listen, server)
	if err := p.Start(); err != nil {
		return err
	}
	l.proxies[link] = p
	return nil
}

// restart waits while a connection that goes out has the port.
func (l *links) restart(link [2]int, p *toxiproxy.Proxy) (err error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 500 {
		if err = l.begin(link, p.Listen, p.Upstream); err == nil {
			return nil
		}
		<-tick.C
	}
	return err
}

func (l *links) stop() {
	for _, p := range l.proxies {
		p.Stop()
	}
}

func (l *links) address(node int) (listen, advertise string, peers []string) {
	peers = []string{nowhere}
	for to := range l.listen {
		if p := l.proxies[[2]int{node, to}]; p != nil {
			peers = append(peers, p.Listen)
		}
	}
	return l.listen[node], nowhere, peers
}

func (l *links) start(_ int, cmd *exec.Cmd) error { return cmd.Start() }

func (l *links) dial(int) func(context.Context, string, string) (net.Conn, error) {
	return new(net.Dialer).DialContext
}

// cut is not noticed at once. Connections stay, and requests get no response.
func (l *links) cut(from, to int) error {
	return l.add([2]int{from, to}, "timeout", `{"timeout":0}`)
}

func (l *links) moveAway(node int, delay time.Duration) (err error) {
	for other := range l.listen {
		if other != node {
			late := fmt.Sprintf(`{"latency":%d}`, delay.Milliseconds())
			err = errors.Join(err, l.add([2]int{node, other}, "latency", late), l.add([2]int{other, node}, "latency", late))
		}
	}
	return err
}

// add adds a toxic to all that one node sends to another.
func (l *links) add(link [2]int, kind, attributes string) error {
	var errs []error
	for p, direction := range map[*toxiproxy.Proxy]string{l.proxies[link]: "upstream", l.proxies[[2]int{link[1], link[0]}]: "downstream"} {
		_, err := p.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"type":%q,"stream":%q,"attributes":%s}`, kind, direction, attributes)))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// heal breaks the connections from which something is missing, and servers make them again.
func (l *links) heal() error {
	var errs []error
	for link, p := range l.proxies {
		if len(p.Toxics.GetToxicArray()) > 0 {
			p.Stop()
			errs = append(errs, l.restart(link, p))
		}
	}
	return errors.Join(errs...)
}
