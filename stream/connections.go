package stream

import (
	"net"
	"sync"
)

// LimitConnections returns a listener that has at most n connections open at once; n must be positive. At the bound
// further ones wait in the queue of the operating system until one ends, and the time-outs of [Server] end those whose
// clients do nothing: with them a slot is held without progress for at most 30 s. Without a bound each connection costs a
// file handle and some KB of memory, and a process without free handles cannot open the files of its store.
//
// To serve, give it to [net/http.Server.Serve]. Closing it closes l.
func LimitConnections(l net.Listener, n int) net.Listener {
	return &limitedListener{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

type limitedListener struct {
	net.Listener
	slots  chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.release()
	return err
}

// CloseWrite ends the sending side alone; the server uses it where a client still sends.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
