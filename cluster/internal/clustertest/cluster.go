// Package clustertest runs three servers in the process of a test.
package clustertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay/cluster/natsserver"
	"github.com/forebay/forebay/internal/porttest"
	"github.com/nats-io/nats.go"
)

// Patience bounds every wait. An election takes 4 to 9 seconds, and much longer on a loaded machine.
const Patience = 90 * time.Second

// Size is the number of servers.
const Size = 3

// Cluster is three servers, which listen on the loopback interface. One goroutine may stop and start them.
type Cluster struct {
	dir     string
	options [Size]natsserver.Options
	servers [Size]*natsserver.Server
}

// Start starts a new cluster, whose data is in a temporary folder until Close. Each option is changed by edit, if there is one.
func Start(edit func(*natsserver.Options)) (*Cluster, error) {
	for attempts := 1; ; attempts++ {
		c, err := start(edit)
		if err == nil || attempts == 10 || !strings.Contains(err.Error(), "address already in use") {
			return c, err
		}
	}
}

// StartLinked starts a new cluster whose servers reach each other through links. The caller closes both.
func StartLinked() (*Cluster, *Links, error) {
	var links *Links
	var failed error
	c, err := Start(func(o *natsserver.Options) {
		if o.Name == "a" { // the first one of an attempt
			if links != nil {
				links.Close()
			}
			links, failed = NewLinks(o.Peers)
		}
		if failed == nil {
			o.Advertise, o.Peers = links.Peers(int(o.Name[0] - 'a'))
		}
	})
	if err = errors.Join(failed, err); err == nil {
		return c, links, nil
	}
	if links != nil {
		links.Close()
	}
	if c != nil {
		err = errors.Join(err, c.Close())
	}
	return nil, nil, err
}

func start(edit func(*natsserver.Options)) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "clustertest-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir}
	peers, err := FreeAddresses()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	for i := range c.options {
		name := string(rune('a' + i))
		c.options[i] = natsserver.Options{
			Name: name, Dir: filepath.Join(dir, name), Listen: peers[i], Peers: peers, Secret: "s3cret", MaxStore: 4 << 30,
			Logger: slog.New(slog.DiscardHandler).With("server", name),
		}
		if edit != nil {
			edit(&c.options[i])
		}
	}
	errs := make([]error, Size)
	var starting sync.WaitGroup
	for i := range c.servers {
		starting.Go(func() { errs[i] = c.StartServer(i) })
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// FreeAddresses returns an address for each server of a cluster. No process listens on them.
func FreeAddresses() ([]string, error) { return porttest.Addresses(Size) }

// StartServer starts a server that is not running.
func (c *Cluster) StartServer(i int) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	c.servers[i], err = natsserver.Start(ctx, c.options[i])
	return err
}

// StopServer stops a server in good order. Connections to it do not move to the next server.
func (c *Cluster) StopServer(i int) error {
	server := c.servers[i]
	c.servers[i] = nil
	return server.Close()
}

// Server returns a running server, or nil.
func (c *Cluster) Server(i int) *natsserver.Server { return c.servers[i] }

// Options returns the options of a server.
func (c *Cluster) Options(i int) natsserver.Options { return c.options[i] }

// Index returns the number of the server with a name, or -1.
func (c *Cluster) Index(name string) int {
	for i, o := range c.options {
		if o.Name == name {
			return i
		}
	}
	return -1
}

// Connect returns a connection to a running server.
func (c *Cluster) Connect(i int, options ...nats.Option) (*nats.Conn, error) {
	return c.servers[i].Connect(options...)
}

// Close stops all servers and removes their data.
func (c *Cluster) Close() error {
	var mu sync.Mutex
	var errs []error
	var stopping sync.WaitGroup
	for i, server := range c.servers {
		if server != nil {
			stopping.Go(func() {
				err := c.StopServer(i)
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
	}
	stopping.Wait()
	return errors.Join(errors.Join(errs...), os.RemoveAll(c.dir))
}

// Eventually calls check until it returns nil, and returns its last error if that takes too long.
func Eventually(check func() error) error {
	deadline := time.Now().Add(Patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %s: %w", Patience, err)
		}
		<-tick.C
	}
}
