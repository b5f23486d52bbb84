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
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// User and Password belong to the account.
const (
	User     = "forebay"
	Password = "s3cret/@?" // needs escapes in a URL
)

// Server is a server that starts for the first test that needs it. The zero value is ready to use.
type Server struct {
	once    sync.Once
	dir     string
	library string
	address string
	err     error
	made    atomic.Int64 // databases

	mu      sync.Mutex
	process *exec.Cmd
	ended   chan struct{} // closed when process has ended
	used    time.Duration // CPU of the processes before

	end   io.Closer // ends sweep
	swept *exec.Cmd
}

// sweep waits for the end of its input, which ends at the latest with this process. Then it kills the server and removes its files. Signals to
// the group of the tests do not end it.
const sweep = `trap "" HUP INT QUIT TERM
read -r _
[ ! -e pid ] || kill -9 "$(cat pid)"
rm -r "$PWD"`

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
	defer s.Close()
	return m.Run()
}

// Close stops the server, if it was started, and removes its files.
func (s *Server) Close() {
	if s.swept != nil {
		_ = s.end.Close()
		_ = s.swept.Wait()
	}
}

// Start starts the server unless it runs.
func (s *Server) Start() error {
	s.once.Do(func() { s.err = s.create() })
	return s.err
}

// need starts the server. Without the engine the test is skipped, or fails where CI=true.
func (s *Server) need(tb testing.TB) {
	tb.Helper()
	switch err := s.Start(); {
	case errors.Is(err, ErrMissing) && os.Getenv("CI") != "true":
		tb.Skip(err)
	case err != nil:
		tb.Fatal(err)
	}
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
	name := fmt.Sprintf("d%d", s.made.Add(1))
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

// Kill ends the server at once, as a crash of its process does. Restart starts it again.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	if err := s.stop(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Fatal(err)
	}
}

// Restart starts the server after Kill.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if err := s.start(); err != nil {
		tb.Fatal(err)
	}
}

// CrashAt makes the server kill itself during a statement with rows, after it has acknowledged the given number of such statements. The statement runs
// for the given time. If the time is negative, the statement stores its rows and gets no response. A restarted server forgets the plan.
func (s *Server) CrashAt(tb testing.TB, inserts int, after time.Duration) {
	tb.Helper()
	if _, err := s.post("/crash?"+url.Values{"inserts": {strconv.Itoa(inserts)}, "after": {strconv.FormatInt(int64(after), 10)}}.Encode(), ""); err != nil {
		tb.Fatal(err)
	}
}

// Ended returns a channel that is closed when the process of the server has ended.
func (s *Server) Ended() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// Shutdown ends the server at once and returns a function that starts it again.
func (s *Server) Shutdown() (restore func() error, err error) { return s.start, s.stop() }

// CPU returns the processor time of the server's processes, as far as Linux tells.
func (s *Server) CPU() (total time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used + s.cpu()
}

// cpu is CPU of the process that runs.
func (s *Server) cpu() (total time.Duration) {
	if s.process == nil {
		return 0
	}
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Process.Pid))
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	for _, t := range fields[11:13] { // user and system
		ticks, _ := strconv.ParseInt(t, 10, 64)
		total += time.Duration(ticks) * 10 * time.Millisecond
	}
	return total
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
	if s.dir, err = os.MkdirTemp("", "ch"); err != nil {
		return err
	}
	s.swept = exec.Command("sh", "-c", sweep)
	s.swept.Dir = s.dir
	if s.end, err = s.swept.StdinPipe(); err != nil {
		return err
	}
	if err := s.swept.Start(); err != nil {
		return err
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.address = free.Addr().String()
	if err := free.Close(); err != nil {
		return err
	}
	return s.start()
}

func (s *Server) start() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), engineEnv+"="+strings.Join([]string{s.library, s.dir, s.address}, "\n"))
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, s.dir
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.dir, "pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	s.mu.Lock()
	s.process, s.ended = cmd, ended
	s.mu.Unlock()
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for deadline := time.Now().Add(time.Minute); ; {
		_, err := s.Query("SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("the server has ended: %s", text[max(0, len(text)-2000):])
		case <-retry.C:
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

func (s *Server) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.cpu()
	err := s.process.Process.Kill()
	<-s.ended
	s.used += used
	return err
}
