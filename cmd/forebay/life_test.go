package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/proctest"
)

// A file that cannot be read, or is none of this program, ends the call with the reason.
func TestUnreadableFiles(t *testing.T) {
	folder := t.TempDir()
	huge, hidden, binary := filepath.Join(folder, "huge.yaml"), filepath.Join(folder, "hidden.yaml"), filepath.Join(folder, "binary.yaml")
	for path, text := range map[string]string{huge: "", hidden: "sources: []", binary: "\x7fELF\x02\x01\x01\x00\x00"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(huge, maxFile+1); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(hidden, 0); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{huge: "larger than 16 MiB", folder: "is a directory", filepath.Join(folder, "none"): "no such file", binary: "neither YAML nor JSON"}
	if os.Geteuid() != 0 { // root reads every file
		files[hidden] = "permission denied"
	}
	for path, want := range files {
		for _, verb := range []string{"serve", "check"} {
			status, out, errs := call(t, "", nil, verb, "-config", path)
			if status == 0 || !strings.Contains(errs, want) || !strings.Contains(errs, path) {
				t.Errorf("%s of %s: status %d, want %q\n%s%s", verb, path, status, want, out, errs)
			}
		}
	}
}

// A port that is taken is named with its flag. The server leaves its folder and its other ports free.
func TestTakenPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	data := t.TempDir()
	for _, flag := range []string{"addr", "api-addr", "otlp-grpc", "otlp-http", "admin"} {
		args := []string{"serve", "-dir", data, "-addr", "127.0.0.1:0", "-api-addr", "127.0.0.1:0", "-otlp-grpc", "127.0.0.1:0", "-otlp-http", "127.0.0.1:0"}
		status, _, errs := call(t, "", nil, append(args, "-"+flag, l.Addr().String())...)
		if status != failed || !strings.Contains(errs, "forebay serve: -"+flag+": ") || !strings.Contains(errs, "another program listens there") || !strings.Contains(errs, "choose another address with -"+flag+", ") {
			t.Errorf("-%s: status %d\n%s", flag, status, errs)
		}
	}
}

// The message names the file that another program has open, and the next step.
func TestInUse(t *testing.T) {
	needs(t, "duckdb:")
	folder := t.TempDir()
	data, db := filepath.Join(folder, "data"), filepath.Join(folder, "events.duckdb")
	s := serve(t, nil, "-dir", data, "-target", "duckdb:"+db)
	for _, tt := range []struct {
		args  []string
		wants []string
	}{
		{[]string{"serve", "-dir", data}, []string{filepath.Join(data, "local") + " is in use", "close that one or choose another folder"}},
		{[]string{"demo", "-n", "1", "-dir", data}, []string{filepath.Join(data, "local") + " is in use", "close that one or choose another folder"}},
		{[]string{"inspect", data}, []string{data, "checkpoint"}},
		{[]string{"size", data}, []string{data, "checkpoint"}},
		{[]string{"demo", "-n", "1", "-dir", filepath.Join(folder, "other"), "-target", "duckdb:" + db}, []string{"-target: ", db, "end that one, or choose another file"}},
	} {
		status, out, errs := call(t, "", nil, tt.args...)
		for _, want := range tt.wants {
			if status != failed || !strings.Contains(errs, want) {
				t.Errorf("got %q: status %d, want %q in\n%s%s", tt.args, status, want, out, errs)
			}
		}
	}
	s.stop()
}

// A terminated demo ends, and the next one resumes in its folder.
func TestTerminatedDemo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	folder := t.TempDir()
	demo := []string{"demo", "-clients", "4", "-dir", filepath.Join(folder, "data"), "-target", "sqlite:" + filepath.Join(folder, "demo.db")}
	cmd := exec.CommandContext(ctx, os.Args[0], append(demo, "-n", "1000000")...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	p := proctest.Run(t, cmd)
	p.Line() // it sends events now
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := p.State().ExitCode(); status != failed || !strings.Contains(p.Logs(), "terminated") {
		t.Error(p.Ended())
	}
	status, out, text := call(t, "", nil, append(demo, "-n", "20")...)
	if want := "\nquickstart: sent=20 rows=40 rejected=0 lost=0 duplicated=0\n"; status != 0 || !strings.HasSuffix(out, want) {
		t.Errorf("the next demo: status %d\n%s%s", status, out, text)
	}
}
