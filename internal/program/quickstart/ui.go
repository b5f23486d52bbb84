package quickstart

import (
	"errors"
	"fmt"
	"io"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/internal/program/web"
)

// ui is the console of the engine on a port of its own.
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
	_ = u.console.Close() // first: open streams would hold up the server
	u.server.Close()
}
