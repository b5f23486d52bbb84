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
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
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
		stored, _ := countAtCommit(t, target)
		if mode == dropCommit && stored != atCommitRows*i || mode == loseAnswer && stored != atCommitRows*(i+1) || stored%atCommitRows != 0 {
			t.Fatalf("kill %d, mode %d: %d rows in %d files", i, mode, stored, i+1)
		}
		if err := drivertest.Patiently(t, target, f); err != nil {
			t.Fatal(err)
		}
		if stored, _ := countAtCommit(t, target); stored != atCommitRows*(i+1) {
			t.Fatalf("kill %d, mode %d: %d rows after the next attempt, want %d", i, mode, stored, atCommitRows*(i+1))
		}
	}
}

// Two engines import into one table while the server is killed. Both import the same file, and each imports a file of its own. In half of the cases
// the server has a COMMIT of the first engine, and otherwise the moment is random. The engines retry at the same time. The table contains each row once.
func TestKillsOfTheServerWithTwoEngines(t *testing.T) {
	if testing.Short() {
		t.Skip("restarts the server")
	}
	kills := proctest.Kills(t)
	t.Logf("%d kills", kills)
	rng := seedtest.Rand(t)
	first := open(t, Options{})
	mustEnsure(t, first, fileAtCommit("").Table)
	second := reopen(t, first.database, Options{InsertOnly: true})
	address := server.URL(first.database)
	p := newProxy(t, address, passOnCommit)
	opened, err := Open(p.address(address), Options{})
	proxied := drivertest.Opened(t, opened, err) // the first engine, whose COMMITs have no response
	var took time.Duration                       // until the first COMMIT
	for i := range kills {
		own := []string{fmt.Sprintf("first-%d", i), fmt.Sprintf("second-%d", i)}
		shared := fmt.Sprintf("both-%d", i)
		together := func(do func(testing.TB, driver.Target, *driver.File) error, engines ...*Target) (ended chan struct{}) {
			var wg sync.WaitGroup
			for n, engine := range engines {
				for _, id := range []string{own[n], shared} {
					wg.Go(func() {
						if err := do(t, engine, fileAtCommit(id)); err != nil {
							t.Errorf("kill %d: the import of %s = %v", i, id, err)
						}
					})
				}
			}
			ended = make(chan struct{})
			go func() {
				wg.Wait()
				close(ended)
			}()
			return ended
		}
		begin := time.Now()
		ended := together(func(_ testing.TB, target driver.Target, f *driver.File) error {
			if err := target.Import(t.Context(), f); driver.IsPermanent(err) {
				return err
			}
			return nil
		}, proxied, second)
		var reached chan net.Conn
		var random <-chan time.Time
		if i%2 == 0 {
			reached = p.reached
		} else {
			random = time.After(time.Duration(rng.Int64N(int64(2*took + 1))))
		}
		select {
		case <-reached:
			took = time.Since(begin)
		case <-random:
		case <-ended:
		}
		server.Kill(t)
		<-ended
		server.Restart(t)
		<-together(drivertest.Patiently, first, second)
		if rows, different := countAtCommit(t, first); rows != 3*atCommitRows*(i+1) || different != rows {
			t.Errorf("kill %d: %d rows, %d different ones, want %d", i, rows, different, 3*atCommitRows*(i+1))
		}
		for len(p.reached) > 0 {
			<-p.reached
		}
		if t.Failed() {
			return
		}
	}
}

const atCommitRows = 50

func fileAtCommit(id string) *driver.File {
	var rows [][]string
	for i := range atCommitRows {
		rows = append(rows, []string{fmt.Sprint(i), id})
	}
	return newFile(id, table("events", idColumn, col("s", datatype.String)), rows...)
}

func countAtCommit(t *testing.T, target *Target) (rows, different int) {
	db := server.Connect(t, target.database)
	defer db.Close()
	if err := db.QueryRow("SELECT count(*), count(DISTINCT s, id) FROM events").Scan(&rows, &different); err != nil {
		t.Fatal(err)
	}
	return rows, different
}
