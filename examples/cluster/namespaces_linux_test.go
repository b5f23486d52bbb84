package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// namespaces are a network in which each node has its own namespace of the kernel. This process passes every packet on, or drops it. Namespaces and devices are
// gone when this process and the nodes are, even if they are killed.
type namespaces struct {
	nodes []*namespace
	later chan packet

	mu    sync.Mutex
	cuts  map[[2]int]bool // from, to
	slow  map[int]bool    // nodes
	delay time.Duration
}

type namespace struct {
	fd  int // of the namespace
	tun *os.File
}

// packet is one that is delayed.
type packet struct {
	at      time.Time
	to      int
	content []byte
}

// newNetwork returns namespaces where the user may make them, and else proxies.
func newNetwork(t *testing.T, listen []string) (network, error) {
	if os.Geteuid() != 0 || *proxies {
		return newLinks(t, listen)
	}
	n := &namespaces{later: make(chan packet, 1<<16), cuts: make(map[[2]int]bool), slow: make(map[int]bool)}
	var forwards sync.WaitGroup
	t.Cleanup(func() {
		for _, node := range n.nodes {
			_ = errors.Join(node.tun.Close(), unix.Close(node.fd))
		}
		forwards.Wait()
		close(n.later)
	})
	for i := range listen {
		node, err := newNamespace(i)
		if err != nil { // as root of a container may not
			t.Logf("proxies connect the nodes, because there are no network namespaces: %v", err)
			return newLinks(t, listen)
		}
		n.nodes = append(n.nodes, node)
	}
	for i := range listen {
		forwards.Go(func() { n.forward(i) })
	}
	go func() {
		for p := range n.later {
			<-time.After(time.Until(p.at))
			_, _ = n.nodes[p.to].tun.Write(p.content) // a lost packet is sent again
		}
	}()
	return n, nil
}

// inThread calls a function in a thread that ends with it, because the thread is in another namespace then.
func inThread(call func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- call()
	}()
	return <-done
}

func (n *namespace) enter(call func() error) error {
	return inThread(func() error { return errors.Join(unix.Setns(n.fd, unix.CLONE_NEWNET), call()) })
}

func ip(node int) [4]byte { return [4]byte{10, 41, 0, byte(node + 1)} }

func newNamespace(node int) (*namespace, error) {
	n := new(namespace)
	return n, inThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		var err error
		if n.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		tun, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("/dev/net/tun: %w", err)
		}
		socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(socket)
		set := func(fd int, request uint, device string, value func(*unix.Ifreq) error) {
			ifr, failed := unix.NewIfreq(device)
			if failed = errors.Join(failed, value(ifr)); failed == nil {
				failed = unix.IoctlIfreq(fd, request, ifr)
			}
			err = errors.Join(err, failed)
		}
		flags := func(flags uint16) func(*unix.Ifreq) error {
			return func(ifr *unix.Ifreq) error { ifr.SetUint16(flags); return nil }
		}
		address, mask := ip(node), [4]byte{255, 255, 255, 0}
		set(tun, unix.TUNSETIFF, "nodes", flags(unix.IFF_TUN|unix.IFF_NO_PI))
		set(socket, unix.SIOCSIFADDR, "nodes", func(ifr *unix.Ifreq) error { return ifr.SetInet4Addr(address[:]) })
		set(socket, unix.SIOCSIFNETMASK, "nodes", func(ifr *unix.Ifreq) error { return ifr.SetInet4Addr(mask[:]) })
		set(socket, unix.SIOCSIFFLAGS, "nodes", flags(unix.IFF_UP))
		set(socket, unix.SIOCSIFFLAGS, "lo", flags(unix.IFF_UP))
		n.tun = os.NewFile(uintptr(tun), "tun") // after the device has a name, or the poller does not see its packets
		return err
	})
}

// forward passes on the packets of a node until the device is closed.
func (n *namespaces) forward(from int) {
	buf := make([]byte, 1<<16)
	for {
		size, err := n.nodes[from].tun.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		const destination = 16 // in the header of IPv4
		if err != nil || size < destination+4 || buf[0]>>4 != 4 {
			continue
		}
		to := int(buf[destination+3]) - 1
		if a := [4]byte(buf[destination:]); to < 0 || to >= len(n.nodes) || a != ip(to) {
			continue
		}
		n.mu.Lock()
		lost, late, delay := n.cuts[[2]int{from, to}], n.slow[from] || n.slow[to], n.delay
		n.mu.Unlock()
		switch {
		case lost:
		case late:
			select {
			case n.later <- packet{time.Now().Add(delay), to, bytes.Clone(buf[:size])}:
			default: // as when a router has no memory left
			}
		default:
			_, _ = n.nodes[to].tun.Write(buf[:size])
		}
	}
}

func (n *namespaces) address(node int) (listen, advertise string, peers []string) {
	for i := range n.nodes {
		a := ip(i)
		peers = append(peers, net.JoinHostPort(net.IP(a[:]).String(), "6222"))
	}
	return peers[node], "", peers
}

func (n *namespaces) start(node int, cmd *exec.Cmd) error { return n.nodes[node].enter(cmd.Start) }

func (n *namespaces) dial(node int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		failed := n.nodes[node].enter(func() error {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return nil
		})
		return conn, errors.Join(failed, err)
	}
}

func (n *namespaces) cut(from, to int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[[2]int{from, to}] = true
	return nil
}

func (n *namespaces) moveAway(node int, delay time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow[node], n.delay = true, delay
	return nil
}

func (n *namespaces) heal() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
	clear(n.slow)
	return nil
}
