package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/forebay/forebay/cluster/internal/instance"
	"github.com/forebay/forebay/cluster/natsserver"
)

// connect starts the server, if the node has one, and connects.
func (n *Node) connect(ctx context.Context) (err error) {
	if n.opts.Server != nil {
		if n.server, err = natsserver.Start(ctx, *n.opts.Server); err == nil {
			n.conn, err = n.server.Connect()
		}
		return err
	}
	// A way that swallows everything breaks no connection. The client asks for a sign of life and goes to another server, within half of the
	// lease; its own default is six minutes.
	options := []nats.Option{nats.PingInterval(cmp.Or(n.opts.Lease, instance.DefaultLease) / 6), nats.MaxPingsOutstanding(2)}
	// A refusal of the user may pass, as an operator repairs it. The client's default is to close for good after the second one.
	options = append(options, nats.IgnoreAuthErrorAbort())
	options = append(options, (&reports{log: n.log}).options()...)
	options = append(options, n.opts.Connect...)
	n.conn, err = nats.Connect(n.opts.URL, append(options, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))...)
	if _, unread := errors.AsType[*url.Error](err); unread { // it has the password
		return errors.New("cluster: Options.URL has an address that cannot be read; escape special characters of a password with %")
	}
	if err != nil {
		return err
	}
	connected := n.conn.StatusChanged(nats.CONNECTED)
	defer n.conn.RemoveStatusListener(connected)
	if n.conn.IsConnected() {
		return nil
	}
	n.log.Info("the node waits for a server", "servers", n.conn.Servers())
	select {
	case <-connected:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no server of %s answers: %w", n.conn.Servers(), context.Cause(ctx)) // without passwords
	}
}

// reports log what becomes of a connection to servers outside. The client would write some of it to the standard error of the program.
type reports struct {
	log *slog.Logger

	mu sync.Mutex
	// said has when a refusal of the user (true), and when anything else, was logged last since there was a connection.
	said map[bool]time.Time
}

// sayAgain is how long the same kind of trouble is not logged again: each server is tried every few seconds.
const sayAgain = time.Minute

func (r *reports) options() []nats.Option {
	return []nats.Option{
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { r.failed(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { r.failed(err) }),
		nats.DisconnectErrHandler(func(c *nats.Conn, err error) {
			if !c.IsClosed() {
				r.log.Warn("the connection to a server is lost; the node connects again", "error", err)
			}
		}),
		nats.ConnectHandler(r.connected),
		nats.ReconnectHandler(r.connected),
	}
}

func (r *reports) connected(c *nats.Conn) {
	r.mu.Lock()
	r.said = nil
	r.mu.Unlock()
	r.log.Info("the node is connected to a server", "server", c.ConnectedUrlRedacted())
}

// failed logs an error of the servers, or of the way to them.
func (r *reports) failed(err error) {
	refused := errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrAccountAuthExpired)
	now := time.Now()
	r.mu.Lock()
	last, said := r.said[refused]
	again := !said || now.Sub(last) >= sayAgain
	if again {
		if r.said == nil {
			r.said = map[bool]time.Time{}
		}
		r.said[refused] = now
	}
	r.mu.Unlock()
	switch {
	case !again:
	case refused:
		r.log.Error("a server refuses the user of this node; the node tries again: look at its credentials, or at its account there", "error", err)
	default:
		r.log.Warn("a server cannot be reached, or reports an error; the node tries again", "error", err)
	}
}
