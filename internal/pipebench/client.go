package pipebench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"
)

// connections is the number of kept connections with one request in flight each.
const connections = 64

// clientEnv tells a process that it is the client. It has the address, path and duration.
const clientEnv = "FOREBAY_PIPELINE_CLIENT"

// order is the task of the client.
type order struct {
	Addr, Path string
	Duration   time.Duration
	// Numbered, if not 0, gives each event of the client its own user_id, and this is the number of the first. The service may be killed: a broken
	// connection is not an error.
	Numbered int64
}

// sent has the measurements of the client.
type sent struct {
	Answered, Failed int // with 200, with another status
	P50, P99, Max    time.Duration
	Seconds          []int // requests that returned 200 in each second
	// Confirmed are the user_ids of the events that returned 200, if they are numbered.
	Confirmed []int64
}

// Main returns the exit status of a driver's command, whose arguments run gets.
func Main(args []string, stdout, stderr io.Writer, run func(ctx context.Context, args []string, stdout io.Writer) error) int {
	return Process(stdout, stderr, func() int { return exitStatus(run(context.Background(), args, stdout), stderr) })
}

// Process returns the exit status of a process that calls [Run], a command or its tests. If Run has started it, it sends events and writes
// its measurements, because the CPU for that must not count as the server's. Otherwise it calls main.
func Process(stdout, stderr io.Writer, main func() int) int {
	text, ok := os.LookupEnv(clientEnv)
	if !ok {
		return main()
	}
	return exitStatus(client(text, stdout), stderr)
}

func exitStatus(err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(stderr, "bench:", err)
	return 1
}

func client(text string, stdout io.Writer) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	s, err := o.send(sync.OnceFunc(func() { fmt.Fprintln(stdout, confirmedLine) }))
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(s)
}

// confirmedLine is what a client with numbered events writes when the first is confirmed, before its measurements.
const confirmedLine = "confirmed"

// runClient sends events from a separate process. It calls first when the first of numbered events is confirmed.
func runClient(ctx context.Context, o order, first func()) (s sent, err error) {
	text, err := json.Marshal(o)
	if err != nil {
		return s, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), clientEnv+"="+string(text))
	var failure bytes.Buffer
	cmd.Stderr = &failure
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return s, err
	}
	if err := cmd.Start(); err != nil {
		return s, err
	}
	out := bufio.NewReader(pipe)
	if begin, _ := out.Peek(len(confirmedLine)); string(begin) == confirmedLine {
		first()
		_, _ = out.Discard(len(confirmedLine))
	}
	read := json.NewDecoder(out).Decode(&s)
	if err := cmd.Wait(); err != nil {
		return s, fmt.Errorf("client: %w: %s", err, &failure)
	}
	return s, read
}

// connection has the measurements of one connection.
type connection struct {
	took    []time.Duration
	failed  int
	seconds []int
	// confirmed are user_ids.
	confirmed []int64
	err       error
}

func (o order) send(first func()) (s sent, err error) {
	of := make([]connection, connections)
	var all sync.WaitGroup
	begin := time.Now()
	for i := range of {
		all.Go(func() { of[i].err = of[i].post(o, i, begin, first) })
	}
	all.Wait()
	var took []time.Duration
	s.Seconds = make([]int, int(o.Duration/time.Second)+1)
	for _, c := range of {
		if c.err != nil {
			return s, c.err
		}
		took = append(took, c.took...)
		s.Failed += c.failed
		s.Confirmed = append(s.Confirmed, c.confirmed...)
		for i, n := range c.seconds {
			s.Seconds[min(i, len(s.Seconds)-1)] += n
		}
	}
	if s.Answered = len(took) - s.Failed; len(took) == 0 && o.Numbered == 0 {
		return s, errors.New("no request got a response")
	}
	if len(took) > 0 {
		s.P50, s.P99, s.Max = quantiles(took)
	}
	return s, nil
}

// quantiles sorts durations, of which there is at least one.
func quantiles(d []time.Duration) (p50, p99, most time.Duration) {
	slices.Sort(d)
	return d[len(d)/2], d[len(d)*99/100], d[len(d)-1]
}

// eventBody returns one of the events, which has about 130 bytes.
func eventBody(n int) []byte { return eventOf(int64(n*151), n) }

func eventOf(user int64, n int) []byte {
	return fmt.Appendf(nil, `{"id":"evt_%08d","type":"order.created","user":{"id":%d,"plan":"team"},"amount":%d.25,"note":"the gate opens when the basin is full"}`,
		n, user, n%100)
}

// eachConnection is how many numbered events a connection may send.
const eachConnection = 1_000_000

// post sends events over one connection. Requests are encoded once and responses are not parsed by net/http, to leave the CPU to the server.
func (c *connection) post(o order, n int, begin time.Time, first func()) error {
	conn, err := net.Dial("tcp", o.Addr)
	if err != nil && o.Numbered > 0 {
		return nil
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	var requests [16][]byte
	for i := range requests {
		requests[i] = o.request(eventBody(n*len(requests) + i))
	}
	in := bufio.NewReader(conn)
	for i, now := 0, time.Now(); now.Sub(begin) < o.Duration && i < eachConnection; i++ {
		request, user := requests[i%len(requests)], o.Numbered+int64(n*eachConnection+i)
		if o.Numbered > 0 {
			request = o.request(eventOf(user, i))
		}
		_, err := conn.Write(request)
		ok := false
		if err == nil {
			ok, err = ReadResponse(in)
		}
		if err != nil && o.Numbered > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if ok && o.Numbered > 0 {
			c.confirmed = append(c.confirmed, user)
			first()
		}
		end := time.Now()
		c.took = append(c.took, end.Sub(now))
		now = end
		if !ok {
			c.failed++
			continue
		}
		for second := int(now.Sub(begin) / time.Second); len(c.seconds) <= second; {
			c.seconds = append(c.seconds, 0)
		}
		c.seconds[len(c.seconds)-1]++
	}
	return nil
}

func (o order) request(body []byte) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", o.Path, o.Addr, len(body), body)
}

var lengthField = []byte("Content-Length: ")

// ReadResponse reads one response, which must have a length, and reports whether its status is 200.
func ReadResponse(in *bufio.Reader) (ok bool, err error) {
	length := -1
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		switch {
		case err != nil:
			return false, err
		case first:
			ok = bytes.HasPrefix(line, []byte("HTTP/1.1 200"))
		case len(line) == len("\r\n"):
			if length < 0 {
				return false, errors.New("the response has no Content-Length")
			}
			_, err = in.Discard(length)
			return ok, err
		case bytes.HasPrefix(line, lengthField):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(lengthField):]))); err != nil {
				return false, err
			}
		}
	}
}
