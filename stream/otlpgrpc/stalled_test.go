package otlpgrpc_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"

	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/otlpgrpc"
)

// stalling opens a connection with calls that announce a message and send all of it but its last byte, as fast as the
// server takes them. The memory of the client is one buffer, whatever the calls have sent. It returns a channel that has
// the end of each call that the server ends, and is closed with the connection.
func stalling(t *testing.T, address string, calls, message int) <-chan ending {
	t.Helper()
	s := connect(t, address, calls)
	s.message = message
	go s.read()
	go s.write(calls)
	return s.ended
}

// call makes a call of the bytes, and returns its code.
func call(t *testing.T, address string, data []byte) codes.Code {
	t.Helper()
	s := connect(t, address, 1)
	go s.read()
	s.mu.Lock()
	err := errors.Join(s.begin(1), s.framer.WriteData(1, true, data))
	s.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	return (<-s.ended).code
}

// ending is how the server has ended a call, and whether it says when to come again.
type ending struct {
	code  codes.Code
	retry bool
}

func connect(t *testing.T, address string, calls int) *stalledCalls {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	s := &stalledCalls{ended: make(chan ending, calls), window: 65535, initial: 65535, streams: make(map[uint32]*stalledCall)}
	s.changed.L = &s.mu
	s.framer = http2.NewFramer(conn, conn)
	s.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	s.encoder = hpack.NewEncoder(&s.fields)
	if err := s.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return s
}

// stalledCalls are the calls of one connection.
type stalledCalls struct {
	ended   chan ending
	message int

	mu              sync.Mutex // guards all below, and writing
	changed         sync.Cond
	framer          *http2.Framer
	fields          bytes.Buffer
	encoder         *hpack.Encoder
	window, initial int
	streams         map[uint32]*stalledCall
	closed          bool
}

// stalledCall is the window and the rest of a call, which are the bytes that it may send and has left.
type stalledCall struct{ window, left int }

func (s *stalledCalls) read() {
	defer close(s.ended)
	for {
		frame, err := s.framer.ReadFrame()
		s.mu.Lock()
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if size, ok := f.Value(http2.SettingInitialWindowSize); ok {
				for _, c := range s.streams {
					c.window += int(size) - s.initial
				}
				s.initial = int(size)
			}
			if !f.IsAck() {
				err = s.framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = s.framer.WritePing(true, f.Data)
			}
		case *http2.WindowUpdateFrame:
			if c := s.streams[f.StreamID]; c != nil {
				c.window += int(f.Increment)
			} else if f.StreamID == 0 {
				s.window += int(f.Increment)
			}
		case *http2.MetaHeadersFrame:
			var e ending
			for _, field := range f.Fields {
				switch field.Name {
				case "grpc-status":
					code, _ := strconv.Atoi(field.Value)
					e.code = codes.Code(code)
				case "grpc-status-details-bin":
					e.retry = true
				}
			}
			delete(s.streams, f.StreamID)
			if f.StreamEnded() {
				s.ended <- e
			}
		}
		s.closed = s.closed || err != nil
		s.changed.Broadcast()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// begin sends the headers of a call.
func (s *stalledCalls) begin(id uint32) error {
	s.fields.Reset()
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", exportLogs},
		{":authority", "x"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
		{"authorization", "Bearer " + secret},
	} {
		if err := s.encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return err
		}
	}
	return s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.fields.Bytes(), EndHeaders: true})
}

func (s *stalledCalls) write(calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(s.message))
	for i := range calls {
		id := uint32(2*i + 1)
		if s.begin(id) != nil || s.framer.WriteData(id, false, prefix) != nil {
			return
		}
		s.window -= len(prefix)
		s.streams[id] = &stalledCall{s.initial - len(prefix), s.message - 1}
	}
	data := make([]byte, 16<<10)
	for !s.closed {
		idle := true
		for id, c := range s.streams {
			n := min(len(data), c.left, c.window, s.window)
			if n <= 0 {
				continue
			}
			if s.framer.WriteData(id, false, data[:n]) != nil {
				return
			}
			c.left, c.window, s.window, idle = c.left-n, c.window-n, s.window-n, false
		}
		if idle {
			s.changed.Wait()
		} else { // the reader has something to say in between
			s.mu.Unlock()
			runtime.Gosched()
			s.mu.Lock()
		}
	}
}

// Calls that stall hold no more memory than the bound of all calls, whatever they announce. Calls above it must come
// again, and when the others have ended there is room again.
func TestStalledCallsAreBounded(t *testing.T) {
	const connections, calls, message, most = 4, 100, 1 << 20, 16 << 20
	opts := otlpgrpc.Options{MaxWireBytes: message, MaxMessageBytes: message, MaxBufferedBytes: most}
	_, _, conn := start(t, opts, nil, app(sink("rows", mapping.Body("b"))))
	live := func() int {
		runtime.GC()
		runtime.GC()                                              // what pools keep is freed by the second one
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}} // without the garbage made since
		metrics.Read(sample)
		return int(sample[0].Value.Uint64())
	}
	before := live()
	// What is made while the collector marks counts as live, garbage too. On a busy machine that is a lot, so a reading above the
	// bound is repeated. What calls hold is there each time.
	least := func(bound int) (took int) {
		for range 3 {
			if took = live() - before; took <= bound {
				break
			}
		}
		return took
	}
	var all []<-chan ending
	for range connections {
		all = append(all, stalling(t, conn.Target(), calls, message))
	}
	// Each call takes its message, and an additional 256 KB, when all but the last byte is there.
	const fit = most / (message + 256<<10)
	for ended := 0; ended < connections*calls-fit; ended++ {
		var e ending
		select {
		case e = <-all[0]:
		case e = <-all[1]:
		case e = <-all[2]:
		case e = <-all[3]:
		}
		if e.code != codes.Unavailable || !e.retry {
			t.Fatalf("a call ended with %v, RetryInfo %v", e.code, e.retry)
		}
		if ended%50 != 0 {
			continue
		}
		if took := least(2 * most); took > 2*most { // with the streams themselves, and bytes that are not counted yet
			t.Fatalf("%d calls that stall take %d MB, the bound is %d MB", connections*calls-ended, took>>20, most>>20)
		}
	}
	if took := least(most + most/4); took > most+most/4 {
		t.Errorf("the %d calls that stay take %d MB, the bound is %d MB", fit, took>>20, most>>20)
	}
}
