package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// connections is the number of kept connections with one request in flight each.
const connections = 64

// sent is what the client has measured.
type sent struct {
	Requests int
	P50, P99 time.Duration
}

// clientCommand runs the client: a process of its own, so that its CPU is not the server's.
const clientCommand = "client"

// runClient sends events to a path of a server for a while.
func runClient(ctx context.Context, addr, path string, d time.Duration) (s sent, err error) {
	cmd := exec.CommandContext(ctx, os.Args[0], clientCommand, addr, path, d.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(out, &s)
}

func client(addr, path, duration string, stdout io.Writer) error {
	d, err := time.ParseDuration(duration)
	if err != nil {
		return err
	}
	took := make([][]time.Duration, connections)
	errs := make([]error, connections)
	var all sync.WaitGroup
	end := time.Now().Add(d)
	for i := range connections {
		all.Go(func() { took[i], errs[i] = post(addr, path, i, end) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	every := slices.Concat(took...)
	slices.Sort(every)
	if len(every) == 0 {
		return fmt.Errorf("no request was answered")
	}
	return json.NewEncoder(stdout).Encode(sent{len(every), every[len(every)/2], every[len(every)*99/100]})
}

// post sends events over one connection. Requests are encoded once and answers are not parsed by net/http, to leave the CPU to the server.
func post(addr, path string, n int, end time.Time) (took []time.Duration, err error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var requests [16][]byte
	for i := range requests {
		event := fmt.Sprintf(`{"id":"evt_%08d","type":"order.created","user":{"id":%d,"plan":"team"},"amount":%d.25,"note":"the gate opens when the basin is full"}`,
			n*len(requests)+i, n*151+i, i)
		requests[i] = fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, addr, len(event), event)
	}
	in := bufio.NewReader(conn)
	for i := 0; time.Now().Before(end); i++ {
		begin := time.Now()
		if _, err := conn.Write(requests[i%len(requests)]); err != nil {
			return nil, err
		}
		if err := answered(in); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
	}
	return took, nil
}

// answered reads one answer, which must be 200 and have a length.
func answered(in *bufio.Reader) error {
	length := -1
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case first && string(line[:min(len(line), 12)]) != "HTTP/1.1 200":
			return fmt.Errorf("answer %q", line)
		case len(line) == len("\r\n"):
			if length < 0 {
				return errors.New("the answer has no Content-Length")
			}
			_, err = in.Discard(length)
			return err
		}
		const name = "Content-Length: "
		if len(line) > len(name) && string(line[:len(name)]) == name {
			if _, err := fmt.Sscan(string(line[len(name):]), &length); err != nil {
				return err
			}
		}
	}
}
