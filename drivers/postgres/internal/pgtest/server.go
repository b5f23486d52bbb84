// Package pgtest runs a private PostgreSQL server for tests: one for each test binary, in a folder of its own, on a Unix socket alone.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// superuser owns the server: PostgreSQL refuses root.
const superuser = "postgres"

// Server is a server that the first test that needs it starts. The zero value is one.
type Server struct {
	once sync.Once
	dir  string // what initdb made, and the socket
	bin  string
	err  error
	made atomic.Int64 // schemas
}

// errMissing says that PostgreSQL is not installed.
var errMissing = errors.New("the programs of the PostgreSQL server are not installed: on Debian, apt-get install postgresql")

// Run runs the tests and then stops the server. TestMain calls it.
func (s *Server) Run(m *testing.M) int {
	code := m.Run()
	if s.dir != "" {
		_ = s.stop()
		_ = os.RemoveAll(s.dir)
	}
	return code
}

// URL returns the connection string of the server, and starts it if need be. Without PostgreSQL the test is skipped, or fails where
// CI=true.
func (s *Server) URL(tb testing.TB) string {
	tb.Helper()
	s.once.Do(func() { s.err = s.create() })
	switch {
	case errors.Is(s.err, errMissing) && os.Getenv("CI") != "true":
		tb.Skip(s.err)
	case s.err != nil:
		tb.Fatal(s.err)
	}
	return "host=" + s.dir + " user=" + superuser + " dbname=postgres"
}

// Schema makes an empty schema that is dropped after the test.
func (s *Server) Schema(tb testing.TB) string {
	tb.Helper()
	conn := s.Connect(tb)
	name := fmt.Sprintf("s%d", s.made.Add(1))
	Exec(tb, conn, "CREATE SCHEMA "+name)
	tb.Cleanup(func() {
		conn := s.Connect(tb)
		Exec(tb, conn, "SET client_min_messages = warning")
		Exec(tb, conn, "DROP SCHEMA "+name+" CASCADE")
	})
	return name
}

// Connect returns a connection that is closed after the test.
func (s *Server) Connect(tb testing.TB) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(context.Background(), s.URL(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Exec runs statements.
func Exec(tb testing.TB, conn *pgx.Conn, sql string) {
	tb.Helper()
	if _, err := conn.Exec(context.Background(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// Restart kills the server at once, as a crash of its process does, and starts it again.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if err := s.stop(); err != nil {
		tb.Fatal(err)
	}
	if err := s.start(); err != nil {
		tb.Fatal(err)
	}
}

func (s *Server) create() error {
	var err error
	if s.bin, err = binaries(); err != nil {
		return err
	}
	// Not t.TempDir: the user of the server must be able to search all parents, and the path of the socket must be short.
	if s.dir, err = os.MkdirTemp("", "pg"); err != nil {
		return err
	}
	if err := os.Chmod(s.dir, 0o755); err != nil {
		return err
	}
	if os.Getuid() == 0 {
		owner, err := user.Lookup(superuser)
		if err != nil {
			return err
		}
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		if err := os.Chown(s.dir, uid, gid); err != nil {
			return err
		}
	}
	if err := s.run("initdb", "-D", s.data(), "-A", "trust", "-U", superuser, "-E", "UTF8", "--locale=C", "--no-sync"); err != nil {
		return err
	}
	return s.start()
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) start() error {
	return s.run("pg_ctl", "start", "-w", "-D", s.data(), "-l", filepath.Join(s.dir, "log"),
		"-o", "-k "+s.dir+" -c listen_addresses='' -c max_connections=200 -c wal_level=minimal -c max_wal_senders=0")
}

func (s *Server) stop() error { return s.run("pg_ctl", "stop", "-m", "immediate", "-D", s.data()) }

// run runs a program of the server as a user who may.
func (s *Server) run(name string, args ...string) error {
	args = append([]string{filepath.Join(s.bin, name)}, args...)
	if os.Getuid() == 0 {
		args = append([]string{"runuser", "-u", superuser, "--"}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = s.dir
	log, err := os.CreateTemp("", "pgtest")
	if err != nil {
		return err
	}
	defer os.Remove(log.Name())
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log // a file: the server keeps a pipe open
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s: %w: %s", name, err, text)
	}
	return nil
}

// binaries returns the folder of the programs. Debian keeps it out of the path.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", errMissing
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(strings.Split(path, "/")[4])
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}
