// Package clickhousetest runs a private server of ClickHouse for tests, one for each test binary, in a temporary folder, on a port of the loopback
// interface. Its engine is the real engine of ClickHouse in a library, libchdb.so, which has no support for clusters. The library, unlike the server,
// ignores an error of write(2), and acknowledges rows of which it has written nothing. The package implements the part of the HTTP interface that the
// driver uses.
package clickhousetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/porttest"
	"github.com/forebay/forebay/internal/servertest"
)

// User and Password belong to the account.
const (
	User     = "forebay"
	Password = "s3cret/@?" // needs escapes in a URL
)

// Server is a server that starts for the first test that needs it. The zero value is ready to use.
type Server struct {
	servertest.Server
	library string
	address string
}

// ErrMissing says that the library of the engine is not installed.
var ErrMissing = errors.New("the engine of ClickHouse is not installed: npm install --global @chdb/lib-linux-x64-gnu@" + Version + ", or set " + libraryEnv + " to a libchdb.so")

// Version is the version of the package with the engine.
const Version = "26.7.3-stable.1"

const (
	libraryEnv = "FOREBAY_CHDB"
	engineEnv  = "FOREBAY_CLICKHOUSE_ENGINE" // library, folder and address of a process that is the server
)

// Main serves and does not return in a process that is the server. A program that uses [Server] calls it first.
func Main() {
	arguments := strings.Split(os.Getenv(engineEnv), "\n")
	if len(arguments) != 3 {
		return
	}
	fmt.Fprintln(os.Stderr, serveEngine(arguments[0], arguments[1], arguments[2]))
	os.Exit(1)
}

// Run runs the tests and then stops the server. TestMain calls it.
func (s *Server) Run(m *testing.M) int {
	Main()
	return s.Server.Run(m)
}

// Start starts the server unless it runs.
func (s *Server) Start() error {
	return s.Once(servertest.Steps{Create: s.create, Start: s.start, Stop: s.KillProcess})
}

// need starts the server. Without the engine the test is skipped, or fails where CI=true.
func (s *Server) need(tb testing.TB) {
	tb.Helper()
	servertest.Need(tb, s.Start(), ErrMissing)
}

// Address returns the host and the port of the server. The server must have been started.
func (s *Server) Address() string { return s.address }

// URL returns the address of a database of the server, in the form that the driver accepts. The server must have been started.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("clickhouse://%s:s3cret%%2F%%40%%3F@%s/%s", User, s.address, database)
}

// Database makes an empty database that is dropped after the test, and returns its name.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	s.need(tb)
	name := s.Name("d")
	s.Exec(tb, "CREATE DATABASE "+name)
	tb.Cleanup(func() { s.Exec(tb, "DROP DATABASE IF EXISTS "+name+" SYNC") })
	return name
}

// Exec runs a statement.
func (s *Server) Exec(tb testing.TB, statement string) {
	tb.Helper()
	s.Rows(tb, statement)
}

// Rows runs a query and returns its rows as texts. NULL is nil.
func (s *Server) Rows(tb testing.TB, query string) [][]*string {
	tb.Helper()
	s.need(tb)
	rows, err := s.Query(query)
	if err != nil {
		tb.Fatalf("%s: got %v, want no error", query, err)
	}
	return rows
}

// Query is Rows for a program. The server must run.
func (s *Server) Query(query string) (rows [][]*string, err error) {
	answer, err := s.post("/?default_format=JSONCompactEachRow", query)
	if err != nil {
		return nil, err
	}
	in := json.NewDecoder(bytes.NewReader(answer))
	in.UseNumber()
	for {
		var row []any
		if err := in.Decode(&row); errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return nil, err
		}
		texts := make([]*string, len(row))
		for i, cell := range row {
			if cell != nil {
				text := fmt.Sprint(cell)
				texts[i] = &text
			}
		}
		rows = append(rows, texts)
	}
}

func (s *Server) post(path, body string) ([]byte, error) {
	req, err := http.NewRequest(http.MethodPost, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Close = true
	req.Header.Set("X-ClickHouse-User", User)
	req.Header.Set("X-ClickHouse-Key", Password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return answer, err
}

// CrashAt makes the server kill itself during a statement with rows, after it has acknowledged the given number of such statements. The statement runs
// for the given time, and does not begin if that is zero. If the time is negative, the statement stores its rows and gets no response. A restarted
// server forgets the plan.
func (s *Server) CrashAt(tb testing.TB, inserts int, after time.Duration) {
	tb.Helper()
	if _, err := s.post("/crash?"+url.Values{"inserts": {strconv.Itoa(inserts)}, "after": {strconv.FormatInt(int64(after), 10)}}.Encode(), ""); err != nil {
		tb.Fatal(err)
	}
}

// find returns the path of the library.
func find() (string, error) {
	if path := os.Getenv(libraryEnv); path != "" {
		return path, nil
	}
	root, err := exec.Command("npm", "root", "--global").Output()
	if err != nil {
		return "", ErrMissing
	}
	path := filepath.Join(strings.TrimSpace(string(root)), "@chdb", "lib-linux-x64-gnu", "libchdb.so")
	if _, err := os.Stat(path); err != nil {
		return "", ErrMissing
	}
	return path, nil
}

func (s *Server) create() (err error) {
	if s.library, err = find(); err != nil {
		return err
	}
	if err := s.Folder("ch", servertest.Killed, nil); err != nil {
		return err
	}
	addresses, err := porttest.Addresses(1)
	if err != nil {
		return err
	}
	s.address = addresses[0]
	return s.start()
}

func (s *Server) start() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), engineEnv+"="+strings.Join([]string{s.library, s.Path(""), s.address}, "\n"))
	return s.Launch(cmd, func() error {
		_, err := s.Query("SELECT 1")
		return err
	})
}
