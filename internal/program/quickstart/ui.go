package quickstart

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/program/web"
	"github.com/forebay/forebay/trigger"
)

// ui is the console of the engine on a separate port.
type ui struct {
	console *console.Console
	server  *web.Server
}

func startUI(eng *forebay.Engine, out io.Writer) (*ui, error) {
	c, err := console.New(eng, console.Options{Name: "quickstart"})
	if err != nil {
		return nil, err
	}
	server, err := web.Local(c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	fmt.Fprintf(out, "watch it at http://%s/ with the token %s\n", server.Addr, c.Token())
	return &ui{c, server}, nil
}

func (u *ui) close() {
	_ = u.console.Close() // first, because open streams would hold up the server
	u.server.Close()
}

// shopPace is the time between two events in -ui.
const shopPace = 40 * time.Millisecond

// outage is how long the table of the second sink does not respond in -ui. Then it responds for twice that time. A person who opens the
// console soon sees an outage, and has time to look at it.
const outage = 8 * time.Second

// failingTarget fails the imports into one table while it is down.
type failingTarget struct {
	driver.Target
	table string
	down  atomic.Bool
}

var errOutage = errors.New("the quickstart plays an outage of this table, which ends by itself after some seconds")

// Import implements [driver.Target].
func (t *failingTarget) Import(ctx context.Context, f *driver.File) error {
	if t.down.Load() && f.Table.ID == t.table {
		return errOutage
	}
	return t.Target.Import(ctx, f)
}

// watchable changes the options and the source so that a person sees each step within a second or two.
func watchable(opts *forebay.Options, src *forebay.Source) *failingTarget {
	target := &failingTarget{Target: opts.Target, table: tableIDs[1]}
	opts.Target = target
	opts.Buffer.MinImportInterval = time.Second
	opts.Buffer.Retry = buffer.Retry{Initial: 500 * time.Millisecond, Max: 2 * time.Second}
	src.Settings.Upload = trigger.Conditions{Interval: time.Second, Count: 10}
	src.Settings.Import = trigger.Conditions{Interval: time.Second, Count: 1_000}
	return target
}

// show sends events until ctx ends, one after the other, while the second table has an outage now and then. It returns the number of events
// sent, including events sent before the call. The first outage has begun when it is called.
func (n *node) show(ctx context.Context, cfg config, l *ledger, out io.Writer) (sent int, err error) {
	length := cmp.Or(cfg.outage, outage)
	fmt.Fprintf(out, "\nEvents keep arriving. Every %[3]s the table %[1]s is unavailable for %[2]s: its rows wait, and nothing is lost.\nPress Ctrl-C to end.\n",
		n.failing.table, length, 3*length)
	defer n.failing.down.Store(false)
	client := &http.Client{Transport: new(http.Transport), Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	pace, change := time.NewTicker(shopPace), time.NewTimer(length)
	defer pace.Stop()
	defer change.Stop()
	for sent = cfg.n; sent < maxEvents; {
		select {
		case <-ctx.Done():
			return sent, nil
		case <-change.C:
			down := !n.failing.down.Load()
			n.failing.down.Store(down)
			if down {
				change.Reset(length)
			} else {
				change.Reset(2 * length)
			}
		case <-pace.C:
			// An event in progress when ctx ends is not cut off at once, so that each event has a response.
			late, stop := outliving(ctx)
			err := send(late, client, cfg, n, l, uint32(sent))
			stop()
			if err != nil {
				return sent, err
			}
			sent++
		}
	}
	<-ctx.Done()
	return sent, nil
}

// graceTime is how long pending work may take after the program was interrupted.
const graceTime = 30 * time.Second

// outliving returns a context that ends graceTime after ctx.
func outliving(ctx context.Context) (late context.Context, stop func()) {
	late, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var timer atomic.Pointer[time.Timer]
	unhook := context.AfterFunc(ctx, func() {
		timer.Store(time.AfterFunc(graceTime, func() { cancel(fmt.Errorf("it has not ended %s after the interrupt", graceTime)) }))
	})
	return late, func() {
		unhook()
		if t := timer.Load(); t != nil {
			t.Stop()
		}
		cancel(nil)
	}
}

// showAndAudit lets a person watch until ctx ends. Then it lets all rows reach their tables and counts them.
func showAndAudit(ctx context.Context, cfg config, n *node, l *ledger, dir string, out io.Writer) error {
	sent, err := n.show(ctx, cfg, l, out)
	if err != nil {
		n.abort()
		return err
	}
	cfg.n = sent
	late, stop := outliving(ctx)
	defer stop()
	if err := n.finish(late); err != nil {
		at := n.levels()
		return fmt.Errorf("%d rows wait in local and staging, and the next start moves them on: %w", at.Local+at.Staging, err)
	}
	return report(cfg, dir, l, out)
}
