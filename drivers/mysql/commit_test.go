package mysql

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/proctest"
)

// commitPacket is the message that commits.
var commitPacket = []byte("\x07\x00\x00\x00\x03COMMIT")

// What a proxy does with a COMMIT.
const (
	dropCommit   = iota
	loseAnswer   // the server commits
	passOnCommit // the server gets it, and may commit or not
)

// proxy stands before the server. It ends a connection at its first COMMIT.
type proxy struct {
	listener net.Listener
	server   string
	mode     int
	reached  chan net.Conn  // a client that waits for the response to its COMMIT
	conns    sync.WaitGroup // of clients
}

func newProxy(t *testing.T, address string, mode int) *proxy {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, server: u.Host, mode: mode, reached: make(chan net.Conn, 10)}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.conns.Go(func() { p.serve(client) })
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		p.conns.Wait()
	})
	return p
}

// address returns an address of the server by way of the proxy.
func (p *proxy) address(address string) string {
	return strings.Replace(address, p.server, p.listener.Addr().String(), 1)
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	upstream, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer upstream.Close()
	var mu sync.Mutex // held while a response is passed on, and never unlocked once a response is lost
	answered := make(chan struct{})
	var lost bool
	go func() {
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := upstream.Read(buf)
			if err != nil {
				return
			}
			mu.Lock()
			if lost {
				close(answered)
				return
			}
			_, err = client.Write(buf[:n])
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if !bytes.HasSuffix(buf[:n], commitPacket) {
			if _, err := upstream.Write(buf[:n]); err != nil {
				return
			}
			continue
		}
		mu.Lock()
		lost = true
		mu.Unlock()
		if p.mode != dropCommit {
			if _, err := upstream.Write(buf[:n]); err != nil {
				return
			}
		}
		if p.mode == loseAnswer {
			<-answered
		}
		p.reached <- client
		_, _ = io.Copy(io.Discard, client) // until it is closed
		return
	}
}

// The connection breaks at the COMMIT. Either the server receives it and its response is lost, or it does not receive it. The error says
// that a retry is safe, and the next attempt stores the rows exactly once.
func TestCommitWithoutAnswer(t *testing.T) {
	for _, o := range []Options{{}, {InsertOnly: true}, {Keys: map[string][]string{"events": {"id"}}}} {
		for _, mode := range []int{dropCommit, loseAnswer} {
			target := open(t, o)
			tbl := table("events", required(idColumn))
			mustEnsure(t, target, tbl)
			address := server.URL(target.database)
			p := newProxy(t, address, mode)
			broken, err := Open(p.address(address), o)
			if err != nil {
				t.Fatal(err)
			}
			f := newFile("file-1", tbl, []string{"1"}, []string{"2"})
			done := make(chan error, 1)
			go func() { done <- broken.Import(context.Background(), f) }()
			(<-p.reached).Close()
			drivertest.Retryable(t, "an import whose COMMIT was not answered", <-done)
			broken.Close()
			stored := len(readTable(t, target.database, "events"))
			if mode == loseAnswer && stored != 2 {
				t.Fatalf("%d rows after a COMMIT that the server has got", stored)
			}
			mustImport(t, target, f)
			expectRows(t, target, "events", []string{"1"}, []string{"2"})
			if n, err := target.CountFile(t.Context(), tbl, f.ID); err != nil || n != 2 {
				t.Errorf("CountFile = %d, %v", n, err)
			}
		}
	}
}

// A process is killed after it has inserted the rows and before it commits, and after the server has committed and before the process knows.
// In each third round the server is killed too, while it has the COMMIT. The next attempt stores the rows exactly once.
func TestKillsAtCommit(t *testing.T) {
	if place, ok := proctest.Child(); ok {
		address, id, _ := strings.Cut(place, "|")
		target, err := Open(address, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Fatal(target.Import(t.Context(), fileAtCommit(id)))
	}
	if testing.Short() {
		t.Skip("it starts processes")
	}
	target := open(t, Options{})
	mustEnsure(t, target, fileAtCommit("").Table)
	address := server.URL(target.database)
	proxies := []*proxy{newProxy(t, address, dropCommit), newProxy(t, address, loseAnswer), newProxy(t, address, passOnCommit)}
	count := func() (rows int) {
		db := server.Connect(t, target.database)
		defer db.Close()
		if err := db.QueryRow("SELECT count(*) FROM events").Scan(&rows); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	kills := max(3, proctest.Kills(t))
	t.Logf("%d kills", kills)
	for i := range kills {
		f := fileAtCommit(fmt.Sprintf("file-%d", i))
		mode := i % len(proxies)
		p := proxies[mode]
		child := proctest.Start(t, t.Name(), p.address(address)+"|"+f.ID)
		client := <-p.reached
		if mode == passOnCommit {
			server.Kill(t)
			server.Restart(t)
		}
		child.Kill()
		client.Close()
		stored := count()
		if mode == dropCommit && stored != atCommitRows*i || mode == loseAnswer && stored != atCommitRows*(i+1) || stored%atCommitRows != 0 {
			t.Fatalf("kill %d, mode %d: %d rows in %d files", i, mode, stored, i+1)
		}
		if err := drivertest.Patiently(t, target, f); err != nil {
			t.Fatal(err)
		}
		if stored := count(); stored != atCommitRows*(i+1) {
			t.Fatalf("kill %d, mode %d: %d rows after the next attempt, want %d", i, mode, stored, atCommitRows*(i+1))
		}
	}
}

const atCommitRows = 50

func fileAtCommit(id string) *driver.File {
	var rows [][]string
	for i := range atCommitRows {
		rows = append(rows, []string{fmt.Sprint(i), "text"})
	}
	return newFile(id, table("events", idColumn, col("s", datatype.String)), rows...)
}
