package main

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/forebay/forebay/internal/casetest"
)

// contained is a command of the image, run as the first process of a PID namespace, in a root that contains nothing but the image, as its user.
func (img image) contained(t *testing.T, root string, env, args []string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = img.workdir
	cmd.Env = append(slices.Concat(img.env, anyPorts), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: root, Credential: &syscall.Credential{Uid: uint32(img.uid), Gid: uint32(img.gid)}, Cloneflags: syscall.CLONE_NEWPID,
	}
	return cmd
}

// The program of the Dockerfile needs nothing of a system. In a root that contains the files of the image alone, as its user and as process 1,
// it starts, is healthy, stores an event in the volume, and ends in order at SIGTERM. It knows the authorities of the image, and time zones.
func TestImage(t *testing.T) {
	if !casetest.All() {
		t.Skip("compiles the program without cgo: the nightly run does")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may change the root of a process")
	}
	img := readDockerfile(t)
	root := img.build(t)
	config := filepath.Join(root, "etc", "forebay.yaml")
	write(t, config, shownFile(t))
	if err := os.Chmod(config, 0o644); err != nil {
		t.Fatal(err)
	}
	serve := slices.Concat(img.entrypoint, img.command, []string{"-config", "/etc/forebay.yaml"})
	posted := 0
	lifetime := func(t *testing.T, end syscall.Signal) {
		t.Helper()
		s := begin(t, img.contained(t, root, []string{"TZ=Asia/Tokyo", "WEB_SECRET=" + webSecret}, serve))
		s.awaitReady()
		if status, text := s.post("ingest", "/stream/1/web/"+webSecret, `{"user":{"id":42}}`); status != http.StatusOK {
			t.Fatalf("an event: got %d %s\n%s", status, text, s.Logs())
		}
		posted++
		health := img.contained(t, root, []string{"FOREBAY_ADDR=" + s.addr["ingest"]}, img.health)
		if out, err := health.CombinedOutput(); err != nil || string(out) != "OK\n" {
			t.Errorf("HEALTHCHECK %q: %v, %s", img.health, err, out)
		}
		if logs := s.Logs(); !strings.Contains(logs, "+09:00 ") {
			t.Errorf("the program does not know the time zone of TZ:\n%s", logs)
		}
		if end == syscall.SIGTERM {
			s.stop()
		} else {
			_ = s.Signal(end)
			_ = s.Err()
		}
		health = img.contained(t, root, []string{"FOREBAY_ADDR=" + s.addr["ingest"]}, img.health)
		if out, err := health.CombinedOutput(); err == nil {
			t.Errorf("HEALTHCHECK %q of a server that has ended: %s, want a failure", img.health, out)
		}
	}
	data := filepath.Join(root, img.volume)
	t.Run("new volume", func(t *testing.T) { lifetime(t, syscall.SIGTERM) })
	// As Kubernetes leaves a volume with fsGroup. It belongs to root, the group may write, and the file system has its folder lost+found.
	t.Run("volume of a group", func(t *testing.T) {
		if err := os.Chown(data, 0, img.gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(data, 0o2775); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(data, "lost+found"), 0o700); err != nil {
			t.Fatal(err)
		}
		lifetime(t, syscall.SIGKILL)
		lifetime(t, syscall.SIGTERM)
	})
	if n := rowsOf(t, filepath.Join(data, "events.db"), "events"); n != posted {
		t.Errorf("the table has %d rows, want the %d that were posted", n, posted)
	}
	t.Run("authorities", func(t *testing.T) { img.checkAuthorities(t, root) })
}

// checkAuthorities pulls from a server whose authority is in the file of the image, and from one whose authority is not.
func (img image) checkAuthorities(t *testing.T, root string) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[{"id":1}]`) }))
	defer srv.Close()
	file := filepath.Join(root, img.copies[0].to)
	authorities, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(root, "pull.json")
	write(t, config, fmt.Sprintf(`{"api": {"baseUrl": "%s/"}, "config": {"jobs": [{"endpoint": "orders"}]}}`, srv.URL))
	if err := os.Chmod(config, 0o644); err != nil {
		t.Fatal(err)
	}
	check := func() (string, error) {
		out, err := img.contained(t, root, nil, slices.Concat(img.entrypoint, []string{"extract", "check", "-config", "/pull.json"})).CombinedOutput()
		return string(out), err
	}
	if out, err := check(); err == nil || !strings.Contains(out, "unknown authority") {
		t.Errorf("a server of an unknown authority: %v\n%s", err, out)
	}
	authorities = append(authorities, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})...)
	if err := os.WriteFile(file, authorities, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := check(); err != nil {
		t.Errorf("a server whose authority is in %s: %v\n%s", file, err, out)
	}
}
