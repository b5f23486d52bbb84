// Package pgtest runs a private PostgreSQL server for tests, one for each test binary, in a separate folder, on a Unix socket alone.
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
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay/forebay/internal/servertest"
)

// superuser owns the server: PostgreSQL refuses root.
const superuser = "postgres"

// Server is a server that the first test that needs it starts. The zero value is one.
type Server struct {
	servertest.Server
	dir string // what initdb made, and the socket
	bin string
}

// stop is how the sweeper stops PgBouncer and the server.
const stop = `[ ! -e pgbouncer.pid ] || kill -9 "$(cat pgbouncer.pid)"
"$0" stop -m immediate -D data`

// ErrMissing says that PostgreSQL is not installed.
var ErrMissing = errors.New("the programs of the PostgreSQL server are not installed: on Debian, apt-get install postgresql")

// Start starts the server unless it runs, and returns its connection string.
func (s *Server) Start() (connString string, err error) {
	err = s.Once(servertest.Steps{Create: s.create, Start: s.start, Stop: s.stop})
	return "host=" + s.dir + " user=" + superuser + " dbname=postgres", err
}

// URL returns the connection string of the server, and starts it if need be. Without PostgreSQL the test is skipped, or fails where
// CI=true.
func (s *Server) URL(tb testing.TB) string {
	tb.Helper()
	url, err := s.Start()
	servertest.Need(tb, err, ErrMissing)
	return url
}

// Bouncer starts PgBouncer, which gives a connection of the server to a client for one transaction, and returns its connection string.
// If it is not installed the test is skipped, or fails where CI=true.
func (s *Server) Bouncer(tb testing.TB) string {
	tb.Helper()
	s.URL(tb)
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil || bare() {
			if os.Getenv("CI") == "true" {
				tb.Fatal(err)
			}
			tb.Skip("pgbouncer is not installed")
		}
	}
	config := filepath.Join(s.dir, "pgbouncer.ini")
	text := "[databases]\npostgres = host=" + s.dir + " user=" + superuser + "\n[pgbouncer]\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = " + s.dir +
		"\npidfile = " + s.dir + "/pgbouncer.pid\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 2\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
	if err := s.command(path, config).Start(); err != nil {
		tb.Fatal(err)
	}
	url := "host=" + s.dir + " port=6432 user=" + superuser + " dbname=postgres"
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-retry.C {
		conn, err := pgx.Connect(context.Background(), url)
		if err == nil {
			_ = conn.Close(context.Background())
			return url
		}
		if time.Now().After(deadline) {
			tb.Fatal(err)
		}
	}
}

// Schema makes an empty schema that is dropped after the test.
func (s *Server) Schema(tb testing.TB) string {
	tb.Helper()
	conn := s.Connect(tb)
	name := s.Name("s")
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
		tb.Fatalf("%s: got %v, want no error", sql, err)
	}
}

// processes returns the id of the server's first process. On Linux all has, for it and its children, the fields of /proc/PID/stat after the
// name: state, parent, ….
func (s *Server) processes() (first string, all map[string][]string) {
	text, _ := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	first, _, _ = strings.Cut(string(text), "\n")
	all = map[string][]string{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		pid := filepath.Base(filepath.Dir(path))
		if fields := servertest.Stat(pid); fields != nil && (pid == first || fields[1] == first) {
			all[pid] = fields
		}
	}
	return first, all
}

// CPU returns the processor time of the server and of all its connections, as far as Linux tells.
func (s *Server) CPU() (total time.Duration) {
	first, all := s.processes()
	for pid, fields := range all {
		times := fields[11:13] // user and system
		if pid == first {
			times = fields[11:15] // and the times of children that have ended
		}
		total += servertest.Ticks(times)
	}
	return total
}

func (s *Server) create() error {
	var err error
	if s.bin, err = binaries(); err != nil {
		return err
	}
	if err := s.Folder("pg", stop, s.owned); err != nil {
		return err
	}
	if err := s.run("initdb", "-D", s.data(), "-A", "trust", "-U", superuser, "-E", "UTF8", "--locale=C", "--no-sync"); err != nil {
		return err
	}
	return s.start()
}

// owned gives the folder to the user of the server, who must be able to search all parents, and returns the sweeper.
func (s *Server) owned(args ...string) (*exec.Cmd, error) {
	s.dir = s.Path("")
	if err := os.Chmod(s.dir, 0o755); err != nil {
		return nil, err
	}
	if os.Getuid() == 0 {
		owner, err := user.Lookup(superuser)
		if err != nil {
			return nil, err
		}
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		if err := os.Chown(s.dir, uid, gid); err != nil {
			return nil, err
		}
	}
	return s.command(append(args, filepath.Join(s.bin, "pg_ctl"))...), nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) start() error {
	return s.run("pg_ctl", "start", "-w", "-D", s.data(), "-l", filepath.Join(s.dir, "log"),
		"-o", "-k "+s.dir+" -c listen_addresses='' -c max_connections=200 -c wal_level=minimal -c max_wal_senders=0")
}

func (s *Server) stop() error { return s.run("pg_ctl", "stop", "-m", "immediate", "-D", s.data()) }

// command returns a program of the server, for a user who may run it.
func (s *Server) command(args ...string) *exec.Cmd {
	if os.Getuid() == 0 {
		args = append([]string{"setpriv", "--reuid=" + superuser, "--regid=" + superuser, "--clear-groups", "--"}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = s.dir
	// English, unless a session sets lc_messages to another locale. The server speaks Japanese to that one.
	cmd.Env = append(os.Environ(), "LC_ALL=C", "LANGUAGE=ja")
	return cmd
}

// run runs a program of the server and waits for its end.
func (s *Server) run(name string, args ...string) error {
	cmd := s.command(append([]string{filepath.Join(s.bin, name)}, args...)...)
	log, err := os.CreateTemp("", "pgtest")
	if err != nil {
		return err
	}
	defer os.Remove(log.Name())
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log // a file, because the server keeps a pipe open
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s: %w: %s", name, err, text)
	}
	return nil
}

// bare keeps the programs of Debian that are not in the PATH out of sight: .ci/run plays a machine without them.
func bare() bool { return os.Getenv("FOREBAY_BARE") != "" }

// binaries returns the folder of the programs. Debian keeps it out of the path.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 || bare() {
		return "", ErrMissing
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(strings.Split(path, "/")[4])
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}
