// Command gcsserver is fake-gcs-server, a Google Cloud Storage in memory, for the tests of drivers. It is a separate module because of
// its dependencies. It serves until its standard input ends, so it never outlives a test that is killed.
//
//	gcsserver BUCKET
//
// It prints "listening" and its address when it listens.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gcsserver BUCKET")
		os.Exit(2)
	}
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1", PublicHost: "127.0.0.1"})
	if err != nil {
		fmt.Fprintln(os.Stderr, "gcsserver:", err)
		os.Exit(1)
	}
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: os.Args[1]})
	fmt.Println("listening", strings.TrimPrefix(server.URL(), "http://"))
	_, _ = io.Copy(io.Discard, os.Stdin)
	server.Stop()
}
