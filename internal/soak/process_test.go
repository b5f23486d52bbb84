package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/internal/clienttest"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/trigger"
)

const secret = "secret-of-the-process-test"

func processSource() forebay.Source {
	s := source(300)
	s.Secret = secret
	s.Settings.Upload = trigger.Conditions{Count: 100, Interval: time.Second, Size: 1 << 20}
	return s
}

// serve is the engine process. It prints its address, and drains and ends when its standard input is closed.
func serve(dir string) error {
	eng, err := forebay.Open(dir, forebay.Options{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := eng.Define(ctx, processSource()); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := stream.Server("", stream.Ingest(eng, stream.Options{}))
	go func() { _ = srv.Serve(listener) }()
	fmt.Printf("http://%s/stream/1/%s/%s\n", listener.Addr(), sourceID, secret)
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := srv.Shutdown(ctx); err != nil {
		return err
	}
	return errors.Join(eng.FlushAll(ctx), eng.Close())
}

// Clients send events over HTTP while the engine is killed with SIGKILL again and again.
func TestKillsWhileClientsSend(t *testing.T) {
	data, clients := clienttest.KillsOfTheEngine(t, 1, 400, serve)
	stored := map[clienttest.Event]int{}
	tables := dir.Tables(filepath.Join(data, "tables"))
	for row, err := range tables.Rows("in.c-soak.rows") {
		var e clienttest.Event
		if err == nil {
			_, err = fmt.Sscan(row[0]+" "+row[1], &e.Client, &e.Seq)
		}
		if err != nil {
			t.Fatal(err)
		}
		stored[e]++
	}
	clients.Check(t, stored)
}

// A second process on the directory of a running engine gets a clear error.
func TestSecondProcess(t *testing.T) {
	if dir, ok := proctest.Child(); ok {
		if err := serve(dir); err != nil {
			t.Fatal(err)
		}
		return
	}
	data := t.TempDir()
	eng, err := forebay.Open(data, forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	out, err := proctest.Start(t, t.Name(), data).Wait()
	if err == nil || !strings.Contains(out, "is in use by another engine; close that one or choose another folder") {
		t.Errorf("the second process: %v, %s", err, out)
	}
}

// A real disk becomes full while rows are sent, and then has room again. Everything that was acknowledged arrives.
func TestFullDisk(t *testing.T) {
	disk := smallDisk(t, 64)
	mem := buffertest.NewMemory()
	eng, err := forebay.Open(filepath.Join(disk, "data"), forebay.Options{Staging: mem, Target: mem, Buffer: buffer.Tuning{
		Retry: buffer.Retry{Initial: 10 * time.Millisecond, Max: 100 * time.Millisecond}, MemTableBytes: 1 << 20,
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	}()
	src := source(1_000_000)
	src.Settings.Upload = trigger.Conditions{Count: 10_000_000, Size: 50 << 20, Interval: 5 * time.Minute}
	if err := eng.Define(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(disk, "ballast")
	if err := fill(ballast, 48<<20); err != nil {
		t.Fatal(err)
	}

	acked := map[string]bool{}
	random, noise := rand.NewChaCha8([32]byte{}), make([]byte, 24<<10)
	send := func(seq int) error {
		_, _ = random.Read(noise)
		for i := range noise {
			noise[i] = 'a' + noise[i]%26 // hardly compresses
		}
		body := fmt.Appendf(nil, `{"client":0,"seq":%d,"noise":"%s"}`, seq, noise)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := eng.Ingest(ctx, sourceID, mapping.JSON(body))
		if err == nil {
			acked[fmt.Sprint(seq)] = true
		}
		return err
	}
	seq, failures := 0, 0
	for ; failures < 20; seq++ {
		if seq > 20_000 {
			t.Fatal("the disk does not become full")
		}
		if err := send(seq); err != nil {
			failures++
		}
	}
	full := len(acked)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for end := seq + 5; seq < end; {
		if err := send(seq); err != nil {
			var failed *buffer.FailedError
			var overload *buffer.OverloadError
			if !errors.As(err, &failed) && !errors.As(err, &overload) {
				t.Fatal(err)
			}
			continue // it is being reopened, or has not seen the room yet
		}
		seq++
	}
	for { // a reopening ends the barrier
		err := eng.FlushAll(t.Context())
		var failed *buffer.FailedError
		if err == nil {
			break
		}
		if !errors.As(err, &failed) {
			t.Fatal(err)
		}
	}
	stored := map[string]int{}
	for _, row := range mem.Rows("in.c-soak.rows") {
		stored[row[1]]++
	}
	t.Logf("%d rows were acknowledged before the disk was full", full)
	proctest.Check(t, maps.Keys(acked), stored)
}

func fill(path string, size int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, size))
	return errors.Join(err, f.Sync(), f.Close())
}

// smallDisk mounts a file system of some MiB.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	at := t.TempDir()
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", size), "tmpfs", at).CombinedOutput()
	if err != nil {
		t.Skipf("needs the right to mount a small file system (root on Linux): %v: %s", err, bytes.TrimSpace(out))
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("unmount: %v: %s", err, out)
		}
	})
	return at
}
