// Package mysqltest runs a private MariaDB server for tests, one for each test binary, in a temporary folder, on a Unix socket and a port of
// the loopback interface.
package mysqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// User and Password belong to the account that has all rights.
const (
	User     = "forebay"
	Password = "s3cret/@?" // needs escapes in a URL
)

// Server is a server that the first test that needs it starts. The zero value is one.
type Server struct {
	// Arguments are further arguments of the server.
	Arguments []string

	once sync.Once
	dir  string
	port int
	bin  string // mariadbd
	err  error
	made atomic.Int64 // databases

	mu      sync.Mutex
	process *exec.Cmd
	ended   chan struct{} // closed when process has ended

	end   io.Closer // ends sweep
	swept *exec.Cmd
}

// sweep waits until its input ends, at the latest when this process ends or is killed. Then it kills the server and removes its files. Signals to
// the group of the tests do not end it.
const sweep = `trap "" HUP INT QUIT TERM
read -r _
[ ! -e pid ] || kill -9 "$(cat pid)"
rm -r "$PWD"`

// ErrMissing says that MariaDB is not installed.
var ErrMissing = errors.New("the programs of the MariaDB server are not installed: on Debian, apt-get install mariadb-server")

// Run runs the tests and then stops the server. TestMain calls it.
func (s *Server) Run(m *testing.M) int {
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

// need starts the server. Without MariaDB the test is skipped, or fails where CI=true.
func (s *Server) need(tb testing.TB) {
	tb.Helper()
	switch err := s.Start(); {
	case errors.Is(err, ErrMissing) && os.Getenv("CI") != "true":
		tb.Skip(err)
	case err != nil:
		tb.Fatal(err)
	}
}

// URL returns the address of a database of the server as the driver takes it. The server must run.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("mysql://%s:s3cret%%2F%%40%%3F@127.0.0.1:%d/%s", User, s.port, database)
}

// Database makes an empty database that is dropped after the test, and returns its name.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	s.need(tb)
	name := fmt.Sprintf("d%d", s.made.Add(1))
	s.Exec(tb, "", "CREATE DATABASE "+name)
	tb.Cleanup(func() { s.Exec(tb, "", "DROP DATABASE IF EXISTS "+name) })
	return name
}

// Connect returns connections to a database with sessions as the server sets them up, which are closed after the test. The caller may run
// several statements at once.
func (s *Server) Connect(tb testing.TB, database string) *sql.DB {
	tb.Helper()
	s.need(tb)
	db, err := s.Open(database)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// Open returns connections to a database of the server, "" for none. The server must run.
func (s *Server) Open(database string) (*sql.DB, error) {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.DBName = User, Password, "unix", s.socket(), database
	cfg.MultiStatements, cfg.InterpolateParams = true, true
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// Exec runs statements in a database; "" for none.
func (s *Server) Exec(tb testing.TB, database, statements string) {
	tb.Helper()
	s.need(tb)
	db, err := s.Open(database)
	if err == nil {
		defer db.Close()
		_, err = db.Exec(statements)
	}
	if err != nil {
		tb.Fatalf("%s: got %v, want no error", statements, err)
	}
}

// ClientArguments returns the arguments with which the program mariadb connects to the server.
func (s *Server) ClientArguments() []string {
	return []string{"--no-defaults", "--socket=" + s.socket(), "--user=" + User, "--password=" + Password}
}

// Kill ends the server at once, as a crash of its process does. Restart starts it again.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	if err := s.stop(); err != nil {
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

// Ended returns a channel that is closed when the process of the server has ended.
func (s *Server) Ended() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// Shutdown ends the server at once and returns what starts it again.
func (s *Server) Shutdown() (restore func() error, err error) { return s.start, s.stop() }

// CPU returns the processor time of the server's process, as far as Linux tells.
func (s *Server) CPU() (total time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

func (s *Server) socket() string { return filepath.Join(s.dir, "socket") }

func (s *Server) create() error {
	install, err := exec.LookPath("mariadb-install-db")
	if err != nil {
		return ErrMissing
	}
	if s.bin, err = exec.LookPath("mariadbd"); err != nil {
		if s.bin, err = exec.LookPath("/usr/sbin/mariadbd"); err != nil { // Debian keeps it out of the path of users
			return ErrMissing
		}
	}
	// Not t.TempDir, because the path of a socket must be short.
	if s.dir, err = os.MkdirTemp("", "my"); err != nil {
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
	cmd := exec.Command(install, append(s.arguments(), "--auth-root-authentication-method=normal", "--skip-test-db")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", install, err, out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.port = free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.MultiStatements = "root", "unix", s.socket(), true
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	_, err = db.Exec(fmt.Sprintf("CREATE USER %[1]s@'%%' IDENTIFIED BY '%[2]s'; GRANT ALL ON *.* TO %[1]s@'%%' WITH GRANT OPTION", User, Password))
	return err
}

// arguments returns what all programs of the server are called with. No configuration of the machine is read.
func (s *Server) arguments() []string {
	args := []string{"--no-defaults", "--datadir=" + filepath.Join(s.dir, "data")}
	if os.Getuid() == 0 {
		args = append(args, "--user=root")
	}
	return append(args, s.Arguments...)
}

func (s *Server) start() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// The defaults of the server's settings are under test, among them sql_mode and max_allowed_packet.
	cmd := exec.Command(s.bin, append(s.arguments(), "--socket="+s.socket(), "--pid-file="+filepath.Join(s.dir, "pid"), "--bind-address=127.0.0.1",
		"--port="+strconv.Itoa(s.port), "--max-connections=200", "--skip-name-resolve", "--tmpdir="+s.dir)...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, s.dir
	if err := cmd.Start(); err != nil {
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
		conn, err := net.Dial("unix", s.socket())
		if err == nil {
			return s.greeted(conn)
		}
		select {
		case <-ended:
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("mariadbd has ended: %s", text[max(0, len(text)-2000):])
		case <-retry.C:
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// greeted waits until the server speaks on a connection.
func (s *Server) greeted(conn net.Conn) error {
	defer conn.Close()
	_, err := conn.Read(make([]byte, 1))
	return err
}

func (s *Server) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.process.Process.Kill()
	<-s.ended
	_ = os.Remove(s.socket()) // a killed server leaves it, and connections to it are refused
	return err
}

// Wait asks until a query of one number returns true.
func (s *Server) Wait(tb testing.TB, database, query string) {
	tb.Helper()
	db := s.Connect(tb, database)
	for yes := false; !yes; {
		if err := db.QueryRowContext(context.Background(), query).Scan(&yes); err != nil {
			tb.Fatalf("%s: got %v, want no error", query, err)
		}
	}
}
