// Command s3server is versitygw, an S3 server on a folder, for the tests of drivers. It is a separate module because of its
// dependencies. It serves until its standard input ends, so it never outlives a test that is killed.
//
//	s3server ADDRESS FOLDER ACCESS-KEY SECRET-KEY
//
// It prints "listening" and its address when it listens. ADDRESS must have a port, because the server does not accept a listener.
// Each folder in FOLDER, an absolute path, is a bucket. The folder "attributes" next to FOLDER contains the attributes of objects.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: s3server ADDRESS FOLDER ACCESS-KEY SECRET-KEY")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "s3server:", err)
		os.Exit(1)
	}
}

func serve(address, folder, access, secret string) error {
	// Attributes are kept in a separate folder, because not every temporary folder supports extended attributes.
	attributes := filepath.Join(filepath.Dir(folder), "attributes")
	if err := os.MkdirAll(attributes, 0o700); err != nil {
		return err
	}
	sidecar, err := meta.NewSideCar(attributes)
	if err != nil {
		return err
	}
	objects, err := posix.New(folder, sidecar, posix.PosixOpts{SideCarDir: attributes, NewDirPerm: 0o700})
	if err != nil {
		return err
	}
	defer objects.Shutdown()
	server, err := s3api.New(objects, middlewares.RootUserConfig{Access: access, Secret: secret}, "us-east-1",
		auth.NewIAMServiceSingle(auth.Account{Access: access, Secret: secret, Role: auth.RoleAdmin}), nil, nil, nil, nil,
		s3api.WithQuiet(), s3api.WithKeepAlive(), s3api.WithDisableACL(), s3api.WithConcurrencyLimiter(4096, 4096),
		s3api.WithMpMaxParts(10_000), s3api.WithOnListen(func() { fmt.Println("listening", address) }))
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- server.ServeMultiPort([]string{address}) }()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	select {
	case err := <-served:
		return err
	case <-ended: // without the server's own end, which waits for idle connections
		return nil
	}
}
