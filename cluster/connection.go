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
	"github.com/forebay/forebay/driver"
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
	// lease. Its own default is six minutes.
	options := []nats.Option{nats.PingInterval(cmp.Or(n.opts.Lease, instance.DefaultLease) / 6), nats.MaxPingsOutstanding(2), nats.Name(driver.Product() + " " + n.opts.Node)}
	// A refusal of the user may pass, as an operator repairs it. The client's default is to close permanently after the second refusal.
	options = append(options, nats.IgnoreAuthErrorAbort())
	log := &connectionLog{log: n.log}
	options = append(options, log.options()...)
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
	n.log.Info("node waits for a server", "servers", n.conn.Servers())
	select {
	case <-connected:
		return nil
	case <-ctx.Done():
		err := fmt.Errorf("no connection to a server of %s: %w", n.conn.Servers(), context.Cause(ctx)) // without passwords
		if last := log.lastError(); last != nil {
			err = fmt.Errorf("%w; the last attempt: %w", err, last)
		}
		return err
	}
}

// connectionLog logs what becomes of a connection to servers outside. The client would write some of it to the standard error of the program.
type connectionLog struct {
	log *slog.Logger

	mu sync.Mutex
	// refusal and trouble are when a refusal of the user, and when any other error, was logged last since there was a connection.
	refusal, trouble time.Time
	last             error // since there was a connection
}

// sayAgain is how long an error of the same kind is not logged again, because each server is tried every few seconds.
const sayAgain = time.Minute

func (l *connectionLog) options() []nats.Option {
	return []nats.Option{
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { l.failed(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { l.failed(err) }),
		nats.DisconnectErrHandler(func(c *nats.Conn, err error) {
			if !c.IsClosed() {
				l.log.Warn("connection to a server lost", "cause", err, "next", "it is retried automatically")
			}
		}),
		nats.ConnectHandler(l.connected),
		nats.ReconnectHandler(l.connected),
	}
}

func (l *connectionLog) connected(c *nats.Conn) {
	l.mu.Lock()
	l.refusal, l.trouble, l.last = time.Time{}, time.Time{}, nil
	l.mu.Unlock()
	l.log.Info("node connected to a server", "server", c.ConnectedUrlRedacted())
}

// failed logs an error of the servers, or of the way to them.
func (l *connectionLog) failed(err error) {
	refused := errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrAccountAuthExpired)
	said := &l.trouble
	if refused {
		said = &l.refusal
	}
	now := time.Now()
	l.mu.Lock()
	again := now.Sub(*said) >= sayAgain
	if again {
		*said = now
	}
	l.last = err
	l.mu.Unlock()
	switch {
	case !again:
	case refused:
		l.log.Error("server refuses the user of this node", "cause", err, "next", "correct the credentials, or the account on the server")
	default:
		l.log.Warn("server not reachable", "cause", err, "next", "check the server and the network")
	}
}

// lastError returns what failed last since there was a connection, or nil.
func (l *connectionLog) lastError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}
