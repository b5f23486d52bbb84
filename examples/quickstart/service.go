package main

import (
	"context"
	"errors"
)

// service is what the clients talk to: a node in this process, or one in a process that is killed now and then.
type service interface {
	// address is where the source is now, for people.
	address() string
	// endpoint returns the URL of the source. It waits while the service is down.
	endpoint(ctx context.Context) (string, error)
	// levels are as fresh as the service has told them.
	levels() levels
	// finish returns when every row is in its table and the service is closed.
	finish(ctx context.Context) error
	// abort closes the service after a failure.
	abort()
	// note is a sentence for the report.
	note() string
}

func startService(ctx context.Context, cfg config, dir, secret string, l *ledger) (service, error) {
	if cfg.crash {
		return startCrashing(cfg, dir, secret, l)
	}
	n, err := startNode(ctx, dir, secret)
	if err != nil {
		return nil, err
	}
	return inProcess{n}, nil
}

type inProcess struct{ *node }

func (p inProcess) address() string                          { return p.url }
func (p inProcess) endpoint(context.Context) (string, error) { return p.url, nil }
func (p inProcess) note() string                             { return "" }

func (p inProcess) finish(ctx context.Context) error {
	return errors.Join(p.drain(ctx), p.eng.Close())
}

func (p inProcess) abort() {
	p.srv.Close()
	<-p.served
	p.eng.Close()
}
