package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/casetest"
)

// A target that the build leaves out is refused on the command line and in a file. The message names the build tag.
func TestLeftOutTargets(t *testing.T) {
	for target, want := range map[string]string{
		"duckdb:x.db":                         "CGO_ENABLED=1 go build -tags forebay_duckdb",
		"iceberg:lake":                        "go build -tags forebay_iceberg",
		"iceberg:https://catalog?warehouse=w": "go build -tags forebay_iceberg",
	} {
		if !leftOut(target) {
			continue
		}
		for _, verb := range []string{"serve", "demo"} {
			status, out, errs := call(t, "", nil, verb, "-dir", t.TempDir(), "-target", target)
			if status == 0 || !strings.Contains(errs, "-target needs ") || !strings.Contains(errs, want) {
				t.Errorf("%s -target %s: status %d, want %q\n%s%s", verb, target, status, want, out, errs)
			}
		}
		if status, out, errs := checkFile(t, "target: "+target, nil); status != wrongUsage || !strings.Contains(errs, "FILE:1:9: ") || !strings.Contains(errs, want) {
			t.Errorf("check of target: %s: status %d, want %q\n%s%s", target, status, want, out, errs)
		}
	}
}

// What a build tag leaves out is refused with the name of the tag, wherever it is asked for.
func TestLeftOutParts(t *testing.T) {
	for _, c := range []struct {
		missing string
		args    []string
		flag    string
	}{
		{bucketsMissing, []string{"serve", "-target", "parquet:s3://lake/tables"}, "-target"},
		{bucketsMissing, []string{"serve", "-target", "sqlite:x.db", "-staging", "gs://lake/wait"}, "-staging"},
		{bucketsMissing, []string{"serve", "-target", "sqlite:x.db", "-archive", "azblob://lake/raw"}, "-archive"},
		{bucketsMissing, []string{"orphans"}, "orphans"},
		{clusterMissing, []string{"serve", "-node", "a"}, "-node"},
	} {
		if c.missing == "" {
			continue
		}
		args := c.args
		if args[0] == "serve" {
			args = append(args, "-dir", t.TempDir())
		}
		status, out, errs := call(t, "", nil, args...)
		if status != wrongUsage || !strings.Contains(errs, c.flag) || !strings.Contains(errs, c.missing) {
			t.Errorf("forebay %s: status %d, want %d, %s and %q\n%s%s", strings.Join(c.args, " "), status, wrongUsage, c.flag, c.missing, out, errs)
		}
	}
}

// The tags keep the clients of clouds, and NATS, out of the program.
func TestTagsLeaveOut(t *testing.T) {
	for tag, want := range map[string][]string{
		"forebay_nobucket":  {"gocloud.dev/blob", "github.com/aws/aws-sdk-go-v2/service/s3", "cloud.google.com/go/storage", "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"},
		"forebay_nocluster": {"github.com/nats-io/nats.go", "github.com/nats-io/nats-server/v2/server"},
	} {
		for _, tags := range []string{"", tag} {
			out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", tags, ".").CombinedOutput()
			if err != nil {
				t.Fatalf("got %v\n%s\nwant no error", err, out)
			}
			packages := strings.Fields(string(out))
			for _, name := range want {
				if got := slices.Contains(packages, name); got != (tags == "") {
					t.Errorf("with the tags %q the program has %s: %t, want %t", tags, name, got, tags == "")
				}
			}
		}
	}
}

// The program of a release needs no C compiler and is at most 100 MB.
func TestSizeOfARelease(t *testing.T) {
	if !casetest.All() {
		t.Skip("compiles the program without cgo: the nightly run does")
	}
	program := filepath.Join(t.TempDir(), "forebay")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.Size(), int64(100e6); got > want {
		t.Errorf("the program is %d bytes, want at most %d: docs/forebay.md says which parts are large", got, want)
	}
}
