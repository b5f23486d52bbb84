// Package refusedtest checks that rows which a table refuses are in the quarantine once, and all others in the table once, although
// processes are killed while they import.
package refusedtest

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/callkey"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/trigger"
)

// Target is a target that is closed before another process opens its tables.
type Target interface {
	driver.Target
	io.Closer
}

// Harness describes the table and the database of [Kills].
type Harness struct {
	// Create makes the table sums in a folder. Its column id refuses the numbers whose remainder by 60 is 17 or 41. Its column n refuses
	// numbers that it has, and has 0 in a row with the id 0.
	Create func(t *testing.T, folder string)
	// Open opens the tables of the folder, even in several processes.
	Open func(folder string) (Target, error)
	// Database returns the database of the folder, whose target is open.
	Database func(t *testing.T, folder string, target Target) *sql.DB
	// Check and Unique are the reasons of the two refusals.
	Check, Unique string
	// Moment is about how long an import takes. A process is killed at any time up to it after a response.
	Moment time.Duration
}

const (
	sourceID = "shop"
	sinkID   = "sums"
	// batch is the number of events of a request.
	batch = 15
	// clients is how many requests are sent at the same time.
	clients = 4
)

// Kills kills a process that serves an engine while clients send, and while it imports rows that its table refuses. The clients use keys and repeat
// requests without a response. The engine has a quarantine with records that cannot be mapped, and an archive. The secret of its source changes between
// kills. It kills as often as the environment variable FOREBAY_KILLS says, three times if it is not set, and never with -short. In the process, which
// runs the calling test alone, Kills does not return before the kill.
func Kills(t *testing.T, h Harness) {
	t.Helper()
	if folder, ok := proctest.Child(); ok {
		if err := h.serveUntilKilled(folder, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "the process that imports:", err)
			t.Fatal(err)
		}
		return
	}
	kills := proctest.Kills(t)
	rng, folder := seedtest.Rand(t), t.TempDir()
	h.Create(t, folder)
	s := &senders{h: h, ended: make(chan struct{}), progress: make(chan struct{}, 1), turns: make(chan struct{}, 100)}
	if testing.Short() {
		h.withoutProcess(t, folder, s)
	} else {
		p := proctest.Start(t, t.Name(), folder)
		s.begin(p.Line())
		rotations := 0
		for range kills {
			s.wait(1 + rng.Int64N(8))
			if rng.IntN(2) == 0 {
				fmt.Fprintln(p.In, "rotate")
				rotations++
				if rng.IntN(2) == 0 { // otherwise the kill may interrupt the rotation
					s.sendTo(p.Line())
					s.wait(1 + rng.Int64N(4))
				}
			}
			time.Sleep(time.Duration(rng.Int64N(int64(h.Moment))))
			s.allow(clients) // the kill interrupts them, or comes after their responses
			time.Sleep(time.Duration(rng.Int64N(int64(4 * time.Millisecond))))
			p.Kill()
			p = proctest.Start(t, t.Name(), folder)
			s.sendTo(p.Line())
		}
		s.wait(4)
		s.end()
		if out, err := p.Wait(); err != nil {
			t.Fatalf("the last process has ended with %v: %s", err, out)
		}
		t.Logf("%d kills, %d rotations of the secret, %d requests of %d events, %d sent more than once, %d of them were stored before", kills, rotations,
			s.next.Load(), batch, s.repeated.Load(), s.known.Load())
	}
	h.check(t, folder, int(s.next.Load()))
}

// withoutProcess serves the engine in this process, and changes the secret once.
func (h Harness) withoutProcess(t *testing.T, folder string, s *senders) {
	t.Helper()
	in, commands := io.Pipe()
	lines, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- errors.Join(h.serveUntilKilled(folder, in, out), out.Close()) }()
	said := bufio.NewScanner(lines)
	for round := range 2 {
		if !said.Scan() {
			t.Fatalf("the server has ended: %v", <-done)
		}
		if round == 0 {
			s.begin(said.Text())
			s.wait(4)
			fmt.Fprintln(commands, "rotate")
		} else {
			s.sendTo(said.Text())
			s.wait(4)
		}
	}
	s.end()
	commands.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// check compares the table, the quarantine and the archive with the events of so many acknowledged requests.
func (h Harness) check(t *testing.T, folder string, requests int) {
	t.Helper()
	good, bad, sent := []string{"0"}, []string(nil), []string(nil)
	for n := range requests {
		for id := 60 + n*batch; id < 60+(n+1)*batch; id++ {
			body, reason := h.event(id)
			sent = append(sent, body)
			switch reason {
			case "":
				good = append(good, fmt.Sprint(id))
			case "malformed":
				bad = append(bad, fmt.Sprintf("x%d malformed", id))
			default:
				bad = append(bad, fmt.Sprint(id, " ", reason))
			}
		}
	}
	engine, target, err := h.open(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	defer engine.Close()
	if err := engine.FlushAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	Equal(t, "the table", ids(t, h.Database(t, folder, target)), good)
	Equal(t, "the quarantine", Kept(t, engine.Sink(sourceID, sinkID).Quarantine()), bad)
	Equal(t, "the archive", archived(t, folder), sent)
	if report, err := engine.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("got %+v, %v, want no problems", report, err)
	}
	if held, err := os.ReadFile(heldPath(folder)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("refused rows have held a file: %s, %v", held, err)
	}
	t.Logf("%d events: %d in the table, %d in the quarantine, %d in the archive", len(sent), len(good)-1, len(bad), len(sent))
}

// open opens an engine with the secret of the folder. Its source accepts the previous secret too.
func (h Harness) open(ctx context.Context, folder string) (*forebay.Engine, Target, error) {
	target, err := h.Open(folder)
	if err != nil {
		return nil, nil, err
	}
	engine, err := forebay.Open(filepath.Join(folder, "engine"), forebay.Options{
		Target: target, Archive: dir.Archive(archivePath(folder), dir.ArchiveOptions{}), Logger: slog.New(slog.NewTextHandler(heldFiles(heldPath(folder)), nil)),
		Buffer: buffer.Tuning{Retry: buffer.Retry{Initial: 10 * time.Millisecond, Max: 50 * time.Millisecond}},
	})
	if err != nil {
		return nil, nil, errors.Join(err, target.Close())
	}
	if err := h.define(ctx, engine, folder); err != nil {
		return nil, nil, errors.Join(err, engine.Close(), target.Close())
	}
	return engine, target, nil
}

func archivePath(folder string) string { return filepath.Join(folder, "archive") }

// define defines the source with the secret whose number is in a file of the folder.
func (h Harness) define(ctx context.Context, engine *forebay.Engine, folder string) error {
	n, err := secretOf(folder)
	if err != nil {
		return err
	}
	return engine.Define(ctx, forebay.Source{
		ID: sourceID, Split: forebay.SplitLines, Archive: &forebay.ArchiveSettings{},
		Secret: secret(n), OldSecret: secret(n - 1), OldSecretUntil: time.Now().Add(time.Hour),
		Settings: forebay.Settings{Upload: trigger.Conditions{Count: 30}, Import: trigger.Conditions{Count: 60}},
		Sinks: []forebay.Sink{{
			ID: sinkID, OnReject: forebay.Quarantine, Table: forebay.Table{ID: "sums", Columns: mapping.Columns{
				mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required()), mapping.Path("n", "n", mapping.DataType(datatype.Int64)),
			}},
		}},
	})
}

func secret(n int) string { return fmt.Sprintf("secret-of-the-kills-%028d", n) }

// secretOf reads the number of the current secret of a folder.
func secretOf(folder string) (n int, err error) {
	text, err := os.ReadFile(filepath.Join(folder, "secret"))
	if errors.Is(err, os.ErrNotExist) {
		return 1, nil
	}
	if err == nil {
		_, err = fmt.Sscan(string(text), &n)
	}
	return n, err
}

// rotate writes the number of the next secret, and defines the source with it.
func (h Harness) rotate(ctx context.Context, engine *forebay.Engine, folder string) error {
	n, err := secretOf(folder)
	next := filepath.Join(folder, "next")
	if err == nil {
		err = os.WriteFile(next, fmt.Append(nil, n+1), 0o600)
	}
	if err == nil {
		err = os.Rename(next, filepath.Join(folder, "secret"))
	}
	if err == nil {
		err = h.define(ctx, engine, folder)
	}
	return err
}

// event returns the body of an event, and the reason of its rejection or refusal.
func (h Harness) event(id int) (body, reason string) {
	n := id
	switch id % 60 {
	case 17, 41:
		reason = h.Check
	case 7, 42:
		n, reason = 0, h.Unique
	case 23:
		return fmt.Sprintf(`{"id":"x%d","n":%d}`, id, n), "malformed"
	}
	return fmt.Sprintf(`{"id":%d,"n":%d}`, id, n), reason
}

// serveUntilKilled is a server. It prints the address for events, and again after each line of in, which changes the secret. At the end of in it
// flushes and ends.
func (h Harness) serveUntilKilled(folder string, in io.Reader, out io.Writer) error {
	ctx := context.Background()
	engine, target, err := h.open(ctx, folder)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := stream.Server("", stream.Ingest(engine, stream.Options{}))
	go func() { _ = server.Serve(listener) }()
	address := func() {
		n, _ := secretOf(folder)
		fmt.Fprintf(out, "http://%s/stream/1/%s/%s\n", listener.Addr(), sourceID, secret(n))
	}
	address()
	for lines := bufio.NewScanner(in); lines.Scan(); address() {
		if err := h.rotate(ctx, engine, folder); err != nil {
			return err
		}
	}
	return errors.Join(server.Shutdown(ctx), engine.FlushAll(ctx), engine.Close(), target.Close())
}

// heldFiles is a log. It writes lines about files that are held to a file of this name.
type heldFiles string

func heldPath(folder string) string { return filepath.Join(folder, "held") }

// Write implements [io.Writer].
func (h heldFiles) Write(line []byte) (int, error) {
	if !bytes.Contains(line, []byte("import failed")) || !bytes.Contains(line, []byte("permanent=true")) {
		return len(line), nil
	}
	file, err := os.OpenFile(string(h), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := file.Write(line)
	return n, errors.Join(err, file.Close())
}

// senders send requests with keys, and repeat each request until it is acknowledged.
type senders struct {
	h        Harness
	at       atomic.Pointer[address]
	next     atomic.Int64 // request
	answered atomic.Int64
	repeated atomic.Int64
	known    atomic.Int64
	progress chan struct{}
	turns    chan struct{} // one for each request, so that imports keep pace with requests
	ended    chan struct{}
	all      sync.WaitGroup
}

// address is where requests go until there is a later address.
type address struct {
	url   string
	later chan struct{}
}

func (s *senders) begin(url string) {
	s.sendTo(url)
	for range clients {
		s.all.Go(s.run)
	}
}

// sendTo lets the clients send to another address from now on.
func (s *senders) sendTo(url string) {
	if last := s.at.Swap(&address{url, make(chan struct{})}); last != nil {
		close(last.later)
	}
}

// allow allows n more requests.
func (s *senders) allow(n int64) {
	for range n {
		s.turns <- struct{}{}
	}
}

// wait returns when n more requests are acknowledged.
func (s *senders) wait(n int64) {
	s.allow(n)
	for want := s.answered.Load() + n; s.answered.Load() < want; {
		<-s.progress
	}
}

// end returns when each request that was sent is acknowledged.
func (s *senders) end() {
	close(s.ended)
	s.all.Wait()
}

func (s *senders) run() {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for {
		select {
		case <-s.ended:
			return
		case <-s.turns:
		}
		s.send(client, int(s.next.Add(1)-1))
	}
}

// send sends a request until it is acknowledged.
func (s *senders) send(client *http.Client, n int) {
	var body strings.Builder
	for id := 60 + n*batch; id < 60+(n+1)*batch; id++ {
		event, _ := s.h.event(id)
		body.WriteString(event + "\n")
	}
	for attempt := 0; ; attempt++ {
		at := s.at.Load()
		req, err := http.NewRequest(http.MethodPost, at.url, strings.NewReader(body.String()))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(callkey.Header, fmt.Sprint("request ", n))
		resp, err := client.Do(req)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if attempt == 1 {
			s.repeated.Add(1)
		}
		if err != nil { // the process is gone
			select {
			case <-at.later:
			case <-time.After(time.Second):
			}
			continue
		}
		if resp.StatusCode != http.StatusOK {
			continue
		}
		if resp.Header.Get("Idempotent-Replayed") == "true" {
			s.known.Add(1)
		}
		s.answered.Add(1)
		select {
		case s.progress <- struct{}{}:
		default:
		}
		return
	}
}

// archived returns the bodies in the archive of a folder.
func archived(t *testing.T, folder string) (bodies []string) {
	t.Helper()
	a := dir.Archive(archivePath(folder), dir.ArchiveOptions{})
	objects, err := a.Objects(t.Context(), sourceID, time.Now().Add(-24*time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range objects {
		object, err := a.Open(t.Context(), sourceID, name)
		if err != nil {
			t.Fatal(err)
		}
		rows := driver.NewRowReader(object)
		rows.Next() // the names of the columns
		for rows.Next() {
			bodies = append(bodies, string(rows.Cells()[2]))
		}
		if err := errors.Join(rows.Err(), object.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return bodies
}

func ids(t *testing.T, db *sql.DB) (all []string) {
	t.Helper()
	list, err := db.Query("SELECT id FROM sums")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	for list.Next() {
		var id string
		if err := list.Scan(&id); err != nil {
			t.Fatal(err)
		}
		all = append(all, id)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// Kept returns the values of the column id of all rows in a quarantine, each with the reason.
func Kept(t *testing.T, q forebay.SinkQuarantine) (kept []string) {
	t.Helper()
	for r, err := range q.List(t.Context(), forebay.RejectedFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		c, err := q.Get(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(string(c.Record.Body), `{"id":"`), `"`)
		kept = append(kept, id+" "+r.Reason)
	}
	return kept
}

// Equal demands that both lists have the same elements as often, in any order. It sorts them.
func Equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s has %d rows, want %d: %q, want %q", what, len(got), len(want), got, want)
	}
}
