package main

import (
	"flag"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// unit are the settings of a unit of systemd by name, in their order.
type unit map[string][]string

func readUnit(t *testing.T, path string) (u unit, text string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	u = unit{}
	for line := range strings.Lines(string(content)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			u[name] = append(u[name], value)
		}
	}
	return u, string(content)
}

// one returns the value of a setting that the unit must have once.
func (u unit) one(t *testing.T, name string) string {
	t.Helper()
	if len(u[name]) != 1 {
		t.Fatalf("the unit has %q as %s, want one value", u[name], name)
	}
	return u[name][0]
}

// shownFile returns the configuration file that docs/deploy.md shows.
func shownFile(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "deploy.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), "```yaml\n")
	text, _, ok2 := strings.Cut(text, "```\n")
	if !ok || !ok2 {
		t.Fatal("docs/deploy.md shows no configuration file")
	}
	return text
}

// manager listens at a socket as a service manager does. next returns the next datagram.
func manager(t *testing.T) (socket string, next func() string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "manager") // t.TempDir can be longer than the name of a socket may be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket = filepath.Join(folder, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return socket, func() string {
		t.Helper()
		datagram := make([]byte, 4096)
		_ = conn.SetReadDeadline(time.Now().Add(clusterPatience))
		n, err := conn.Read(datagram)
		if err != nil {
			t.Fatalf("the service manager gets no datagram: %v", err)
		}
		return string(datagram[:n])
	}
}

// The program runs with the command line, the variables and the credential of the unit. It tells the manager when it accepts requests and when it
// stops, and ends before the manager would kill it.
func TestSystemdUnitIsPlayed(t *testing.T) {
	u, _ := readUnit(t, filepath.Join("..", "..", "deploy", "forebay.service"))
	folder := t.TempDir()
	state, config, credentials := filepath.Join(folder, "state"), filepath.Join(folder, "forebay.yaml"), filepath.Join(folder, "credentials")
	for _, made := range []string{state, credentials} {
		if err := os.Mkdir(made, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, config, shownFile(t))
	name, _, _ := strings.Cut(u.one(t, "LoadCredential"), ":")
	write(t, filepath.Join(credentials, name), webSecret+"\n")
	places := strings.NewReplacer("/var/lib/"+u.one(t, "StateDirectory"), state, "/etc/forebay/forebay.yaml", config, "%d", credentials)

	command := strings.Fields(places.Replace(u.one(t, "ExecStart")))
	socket, next := manager(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], command[1:]...)
	cmd.Dir = places.Replace(u.one(t, "WorkingDirectory"))
	cmd.Env = slices.Concat(os.Environ(), anyPorts, []string{asProgram + "=1", "NOTIFY_SOCKET=" + socket, places.Replace(u.one(t, "Environment"))})
	s := begin(t, cmd)
	if got := next(); got != "READY=1" {
		t.Fatalf("the first datagram is %q, want READY=1", got)
	}
	s.awaitReady()
	if status, text := s.post("ingest", "/stream/1/web/"+webSecret, `{"user":{"id":42}}`); status != http.StatusOK {
		t.Errorf("an event after READY=1: got %d %s, want 200", status, text)
	}
	s.stop()
	if got := next(); got != "STOPPING=1" {
		t.Errorf("the second datagram is %q, want STOPPING=1", got)
	}
	if n := rowsOf(t, filepath.Join(state, "events.db"), "events"); n != 1 {
		t.Errorf("the table has %d rows in the state directory, want 1", n)
	}

	flags := flag.NewFlagSet("", flag.ContinueOnError)
	cfg := new(serveConfig)
	cfg.register(flags)
	if seconds, err := strconv.Atoi(u.one(t, "TimeoutStopSec")); err != nil || time.Duration(seconds)*time.Second < cfg.ShutdownTimeout+closePatience {
		t.Errorf("TimeoutStopSec is %d s, %v, want at least -shutdown-timeout %s and %s for Close", seconds, err, cfg.ShutdownTimeout, closePatience)
	}
	if handles, err := strconv.Atoi(u.one(t, "LimitNOFILE")); err != nil || handles < cfg.MaxConnections+2048 {
		t.Errorf("LimitNOFILE is %d, %v, want at least -max-connections %d and 2048", handles, err, cfg.MaxConnections)
	}
	if status, err := strconv.Atoi(u.one(t, "RestartPreventExitStatus")); err != nil || status != wrongUsage {
		t.Errorf("RestartPreventExitStatus is %d, %v, want %d, the status of a mistake in the configuration", status, err, wrongUsage)
	}
}

// closePatience is how long Close may take after a shutdown. A node waits 20 s for a log that does not respond.
const closePatience = 30 * time.Second

// A server that cannot reach its service manager logs that and serves.
func TestServiceManagerIsAway(t *testing.T) {
	s := serve(t, []string{"NOTIFY_SOCKET=" + filepath.Join(t.TempDir(), "none")}, "-dir", t.TempDir())
	s.waitLog("service manager not notified", 1)
	s.stop()
}

// systemd knows each setting of the unit, and rates its hardening.
func TestSystemdUnitIsVerified(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("systemd-analyze is not installed, and CI=true: install systemd")
		}
		t.Skip("systemd-analyze is not installed: install systemd")
	}
	u, text := readUnit(t, filepath.Join("..", "..", "deploy", "forebay.service"))
	program, _, _ := strings.Cut(u.one(t, "ExecStart"), " ")
	copied := filepath.Join(t.TempDir(), "forebay.service")
	write(t, copied, strings.Replace(text, program, "/bin/true", 1)) // which exists
	for _, args := range [][]string{{"verify", "--man=no", copied}, {"security", "--offline=true", "--no-pager", "--threshold=15", copied}} {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput()
		if err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %q: %v\n%s", args, err, out)
		}
	}
	if !slices.Contains(u["ExecReload"], "/bin/kill -HUP $MAINPID") {
		t.Errorf("ExecReload is %q, want the signal that reloads the file", u["ExecReload"])
	}
}

// The commands of docs/deploy.md put each file where the unit looks for it, and let root alone read the secret.
func TestSystemdUnitIsInstalled(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "deploy.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, commands, ok := strings.Cut(string(page), "## systemd\n")
	_, commands, ok2 := strings.Cut(commands, "```sh\n")
	commands, manage, ok3 := strings.Cut(commands, "systemctl daemon-reload\nsystemctl enable --now forebay\n```\n")
	if !ok || !ok2 || !ok3 || manage == "" {
		t.Fatal("docs/deploy.md does not show how to install the unit")
	}
	clone, root := t.TempDir(), t.TempDir()
	for _, folder := range []string{filepath.Join(root, "usr/local/bin"), filepath.Join(root, "etc/systemd/system"), filepath.Join(clone, "deploy")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	u, text := readUnit(t, filepath.Join("..", "..", "deploy", "forebay.service"))
	write(t, filepath.Join(clone, "deploy", "forebay.service"), text)
	write(t, filepath.Join(clone, "forebay"), "the program")
	write(t, filepath.Join(clone, "forebay.yaml"), shownFile(t))
	install := exec.CommandContext(t.Context(), "sh", "-e", "-c", strings.NewReplacer(" /usr/", " "+root+"/usr/", " /etc/", " "+root+"/etc/").Replace(commands))
	install.Dir = clone
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, out)
	}
	command := strings.Fields(u.one(t, "ExecStart"))
	_, secret, _ := strings.Cut(u.one(t, "LoadCredential"), ":")
	for path, mode := range map[string]os.FileMode{command[0]: 0o755, command[slices.Index(command, "-config")+1]: 0o644, secret: 0o600, "/etc/systemd/system/forebay.service": 0o644} {
		info, err := os.Stat(filepath.Join(root, path))
		if err != nil || info.Mode() != mode || info.Size() == 0 {
			t.Errorf("%s: got %+v, %v, want a file with the mode %s", path, info, err, mode)
		}
	}
}
