// Package buckettest runs the object stores of tests, versitygw for S3, fake-gcs-server for Google Cloud Storage and Azurite for
// Azure.
package buckettest

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/porttest"
)

// Server is a store in a separate process, which ends with this process.
type Server struct {
	// Address is HOST:PORT.
	Address string

	folder string
	stdin  io.Closer
	cmd    *exec.Cmd
}

// Keys of the S3 server.
const (
	AccessKey = "test-access"
	SecretKey = "test-secret-that-no-error-may-show"
)

// StartS3 starts versitygw on a temporary folder. The first build of it takes minutes. The caller closes it.
func StartS3() (*Server, error) {
	folder, err := os.MkdirTemp("", "s3server-")
	if err != nil {
		return nil, err
	}
	objects := filepath.Join(folder, "objects")
	if err := os.Mkdir(objects, 0o700); err != nil {
		return nil, err
	}
	var s *Server
	address, err := porttest.Addresses(1)
	if err == nil {
		s, err = start("s3server", address[0], objects, AccessKey, SecretKey)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	s.folder = folder
	return s, nil
}

// StartGCS starts fake-gcs-server with one bucket.
func StartGCS(bucket string) (*Server, error) { return start("gcsserver", bucket) }

// start runs the command of a module in a folder of this one. The command serves until its standard input ends.
func start(module string, args ...string) (*Server, error) {
	// runtime.Caller has no folder in a build with -trimpath.
	folder, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/forebay/forebay/internal/buckettest").Output()
	if err != nil {
		return nil, fmt.Errorf("find the folder of %s: %w", module, err)
	}
	cmd := exec.Command("go", append([]string{"run", "."}, args...)...)
	cmd.Dir = filepath.Join(strings.TrimSpace(string(folder)), module)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var words bytes.Buffer // versitygw says there when a client goes away
	cmd.Stderr = &words
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Server{stdin: stdin, cmd: cmd}
	for lines := bufio.NewScanner(stdout); lines.Scan(); { // versitygw prints its own lines too
		if address, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
			s.Address = address
			go io.Copy(io.Discard, stdout)
			return s, nil
		}
	}
	return nil, fmt.Errorf("%s has ended: %w", module, errors.Join(s.Close(), errors.New(words.String())))
}

// Close ends the process and removes its folder.
func (s *Server) Close() error {
	_ = s.stdin.Close()
	return errors.Join(s.cmd.Wait(), os.RemoveAll(s.folder))
}

// CreateBucket makes a bucket of S3 with that name.
func (s *Server) CreateBucket(name string) error { return os.Mkdir(s.BucketFolder(name), 0o700) }

// BucketFolder is where the server keeps the objects of a bucket of S3, one file each.
func (s *Server) BucketFolder(name string) string { return filepath.Join(s.folder, "objects", name) }

// RemoveBucket removes a bucket with its objects.
func (s *Server) RemoveBucket(name string) error {
	return errors.Join(os.RemoveAll(s.BucketFolder(name)), os.RemoveAll(filepath.Join(s.folder, "attributes", name)))
}

// S3URL is the URL of a bucket of a server at that address.
func S3URL(address, bucket string) string {
	return "s3://" + bucket + "?endpoint=" + url.QueryEscape("http://"+address)
}

// SetEnv sets the credentials of all three stores, and the addresses that Google's and Azure's SDKs read from the environment.
func SetEnv() {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": AccessKey, "AWS_SECRET_ACCESS_KEY": SecretKey, "AWS_EC2_METADATA_DISABLED": "true",
		"AZURE_STORAGE_ACCOUNT": "devstoreaccount1",
		"AZURE_STORAGE_KEY":     "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==", // documented
	} {
		os.Setenv(name, value)
	}
}

// Azurite starts the program azurite-blob of npm and returns its address. A test whose program is missing is skipped. Where CI=true it
// fails.
func Azurite(t *testing.T) (address string) {
	t.Helper()
	program, err := exec.LookPath(cmp.Or(os.Getenv("AZURITE_BLOB"), "azurite-blob"))
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("the program azurite-blob is not installed: npm install -g azurite@3.37.0, or AZURITE_BLOB=PATH")
	}
	cmd := exec.Command(program, "--inMemoryPersistence", "--skipApiVersionCheck", "--blobPort", "0", "--disableTelemetry")
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	giveUp := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer giveUp.Stop()
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if _, address, ok := strings.Cut(lines.Text(), "successfully listens on http://"); ok {
			go io.Copy(io.Discard, stdout)
			return address
		}
	}
	t.Fatal("azurite-blob has ended")
	return ""
}
