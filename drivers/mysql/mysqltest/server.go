// Package mysqltest runs a private MariaDB server for tests, one for each test binary, in a temporary folder, on a Unix socket and a port of
// the loopback interface.
package mysqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/forebay/forebay/internal/porttest"
	"github.com/forebay/forebay/internal/servertest"
)

// User and Password belong to the account that has all rights.
const (
	User     = "forebay"
	Password = "s3cret/@?" // needs escapes in a URL
)

// Server is a server that the first test that needs it starts. The zero value is one.
type Server struct {
	servertest.Server
	// Arguments are further arguments of the server.
	Arguments []string

	port string
	bin  string // mariadbd
}

// ErrMissing says that MariaDB is not installed.
var ErrMissing = errors.New("the programs of the MariaDB server are not installed: on Debian, apt-get install mariadb-server")

// Start starts the server unless it runs.
func (s *Server) Start() error {
	return s.Once(servertest.Steps{Create: s.create, Start: s.start, Stop: s.stop})
}

// need starts the server. Without MariaDB the test is skipped, or fails where CI=true.
func (s *Server) need(tb testing.TB) {
	tb.Helper()
	servertest.Need(tb, s.Start(), ErrMissing)
}

// URL returns the address of a database of the server as the driver takes it. The server must run.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("mysql://%s:s3cret%%2F%%40%%3F@127.0.0.1:%s/%s", User, s.port, database)
}

// Database makes an empty database that is dropped after the test, and returns its name.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	s.need(tb)
	name := s.Name("d")
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

func (s *Server) socket() string { return s.Path("socket") }

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
	if err := s.Folder("my", servertest.Killed, nil); err != nil {
		return err
	}
	cmd := exec.Command(install, append(s.arguments(), "--auth-root-authentication-method=normal", "--skip-test-db")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", install, err, out)
	}
	addresses, err := porttest.Addresses(1)
	if err != nil {
		return err
	}
	s.port = addresses[0][strings.LastIndexByte(addresses[0], ':')+1:]
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
	args := []string{"--no-defaults", "--datadir=" + s.Path("data")}
	if os.Getuid() == 0 {
		args = append(args, "--user=root")
	}
	return append(args, s.Arguments...)
}

func (s *Server) start() error {
	// The defaults of the server's settings are under test, among them sql_mode and max_allowed_packet.
	return s.Launch(exec.Command(s.bin, append(s.arguments(), "--socket="+s.socket(), "--pid-file="+s.Path("pid"), "--bind-address=127.0.0.1",
		"--port="+s.port, "--max-connections=200", "--skip-name-resolve", "--tmpdir="+s.Path(""))...), s.greeted)
}

// greeted waits until the server speaks on a connection.
func (s *Server) greeted() error {
	conn, err := net.Dial("unix", s.socket())
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	return err
}

func (s *Server) stop() error {
	err := s.KillProcess()
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
