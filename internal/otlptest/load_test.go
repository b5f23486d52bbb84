package otlptest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A sender sends an already encoded request again and again over its own connection, each time with a different number in place of its mark. Both
// senders are as small as they can be, to leave the CPU to the server.
type sender interface {
	// run sends while next reports true, and returns when all requests have succeeded.
	run(next func() bool) error
	io.Closer
}

// newSender connects to the source of the tests. calls is how many are in flight over gRPC.
func newSender(protocol, address string, data []byte, calls int) (sender, error) {
	if protocol == "http" {
		return newHTTPSender(address, "/otlp/1/app/"+secret+"/v1/logs", data)
	}
	return newGRPCSender(address, "/opentelemetry.proto.collector.logs.v1.LogsService/Export", secret, data, calls)
}

// httpSender posts over HTTP/1.1.
type httpSender struct {
	net.Conn
	in      *bufio.Reader
	request []byte
	place   int // of the mark
}

func newHTTPSender(address, path string, body []byte) (sender, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n", path, address, len(body))
	request := append([]byte(head), body...)
	return &httpSender{conn, bufio.NewReader(conn), request, bytes.Index(request, requestMark[:])}, nil
}

func (s *httpSender) run(next func() bool) error {
	for next() {
		if err := s.send(); err != nil {
			return err
		}
	}
	return nil
}

func (s *httpSender) send() error {
	binary.BigEndian.PutUint64(s.request[s.place:], newMark())
	if _, err := s.Write(s.request); err != nil {
		return err
	}
	for line := 0; ; line++ {
		b, err := s.in.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case line == 0 && !bytes.HasPrefix(b, []byte("HTTP/1.1 200 ")):
			return fmt.Errorf("the answer is %s", b)
		case len(b) == 2: // the response to a full success has no body
			return nil
		}
	}
}

// grpcSender calls over HTTP/2, with some calls in flight at a time.
type grpcSender struct {
	net.Conn
	in *bufio.Reader
	// first has the frames of the first call, frames the frames of later calls, whose fields are in the table of the connection.
	first, frames []byte
	size          int // of the message with its prefix
	most          int // of the calls in flight
	stream        uint32
	// window is how much the server accepts now on the connection, and initial on a new stream.
	window, initial int
	out             []byte // calls to be written together
	fields          *hpack.Decoder
	// known are header blocks that stand for themselves whatever came before, and tell of no failure.
	known map[string]bool
}

const frameSize = 16 << 10

func newGRPCSender(address, method, secret string, message []byte, most int) (sender, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	data := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	s := &grpcSender{
		Conn: conn, in: bufio.NewReader(conn), most: most, size: len(data), window: 65535, initial: 65535,
		fields: hpack.NewDecoder(4096, nil), known: make(map[string]bool),
	}
	var fields bytes.Buffer
	enc := hpack.NewEncoder(&fields)
	for _, to := range []*[]byte{&s.first, &s.frames} {
		fields.Reset()
		for _, f := range [][2]string{
			{":method", http.MethodPost},
			{":scheme", "http"},
			{":path", method},
			{":authority", address},
			{"content-type", "application/grpc"},
			{"te", "trailers"},
			{"authorization", "Bearer " + secret},
		} {
			if err := enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
				return nil, err
			}
		}
		var out bytes.Buffer
		framer := http2.NewFramer(&out, nil)
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fields.Bytes(), EndHeaders: true}); err != nil {
			return nil, err
		}
		for rest := data; len(rest) > 0; {
			n := min(len(rest), frameSize)
			if err := framer.WriteData(1, n == len(rest), rest[:n]); err != nil {
				return nil, err
			}
			rest = rest[n:]
		}
		*to = out.Bytes()
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, err
	}
	framer := http2.NewFramer(conn, nil)
	if err := framer.WriteSettings(); err != nil {
		return nil, err
	}
	return s, framer.WriteWindowUpdate(0, 1<<30) // more than all responses
}

// run reads the server's frames before it writes the calls that became possible, several at once if possible.
func (s *grpcSender) run(next func() bool) error {
	more := true
	for flying := 0; ; {
		for more && flying < s.most && s.size <= min(s.window, s.initial) {
			if more = next(); more {
				s.add()
				flying++
			}
		}
		if len(s.out) > 0 {
			if _, err := s.Write(s.out); err != nil {
				return err
			}
			s.out = s.out[:0]
		}
		if !more && flying == 0 {
			return nil
		}
		for first := true; first || s.in.Buffered() > 0; first = false {
			done, err := s.read()
			if err != nil {
				return err
			}
			if done {
				flying--
			}
		}
	}
}

// add puts the frames of a call to those to be written.
func (s *grpcSender) add() {
	frames := s.frames
	if s.stream == 0 {
		frames = s.first
	}
	s.stream = s.stream + 1 | 1
	from := len(s.out)
	s.out = append(s.out, frames...)
	binary.BigEndian.PutUint64(s.out[from+bytes.Index(frames, requestMark[:]):], newMark()) // it is near the start
	for i := from; i < len(s.out); {
		binary.BigEndian.PutUint32(s.out[i+5:], s.stream)
		i += 9 + int(binary.BigEndian.Uint32(s.out[i:])>>8)
	}
	s.window -= s.size
}

// read takes one frame and reports whether it ends a call.
func (s *grpcSender) read() (done bool, err error) {
	head, err := s.in.Peek(9)
	if err != nil {
		return false, err
	}
	size := 9 + int(binary.BigEndian.Uint32(head)>>8)
	frame, err := s.in.Peek(size)
	if err != nil {
		return false, err
	}
	defer func() {
		if _, e := s.in.Discard(size); err == nil {
			err = e
		}
	}()
	kind, flags, stream, content := http2.FrameType(frame[3]), http2.Flags(frame[4]), binary.BigEndian.Uint32(frame[5:]), frame[9:]
	switch kind {
	case http2.FrameSettings:
		if flags.Has(http2.FlagSettingsAck) {
			break
		}
		for ; len(content) >= 6; content = content[6:] {
			if http2.SettingID(binary.BigEndian.Uint16(content)) == http2.SettingInitialWindowSize {
				s.initial = int(binary.BigEndian.Uint32(content[2:]))
			}
		}
		s.out = append(s.out, 0, 0, 0, byte(http2.FrameSettings), byte(http2.FlagSettingsAck), 0, 0, 0, 0)
	case http2.FramePing:
		if !flags.Has(http2.FlagPingAck) {
			s.out = append(s.out, 0, 0, 8, byte(http2.FramePing), byte(http2.FlagPingAck), 0, 0, 0, 0)
			s.out = append(s.out, content...)
		}
	case http2.FrameWindowUpdate:
		if stream == 0 {
			s.window += int(binary.BigEndian.Uint32(content))
		}
	case http2.FrameHeaders:
		return flags.Has(http2.FlagHeadersEndStream), s.checkStatus(content)
	case http2.FrameRSTStream, http2.FrameGoAway, http2.FrameContinuation:
		return false, fmt.Errorf("the answer is %v: %q", kind, content)
	}
	return false, nil
}

// checkStatus returns the error of a call whose status is in a block of header fields.
func (s *grpcSender) checkStatus(block []byte) error {
	if s.known[string(block)] {
		return nil
	}
	fields, err := s.fields.DecodeFull(block)
	if err != nil {
		return err
	}
	for _, field := range fields {
		if field.Name == "grpc-status" && field.Value != "0" {
			return fmt.Errorf("the response has %v", fields)
		}
	}
	for _, b := range block {
		if b < 0x80 { // the block may change what later ones mean
			clear(s.known)
			return nil
		}
	}
	s.known[string(block)] = true
	return nil
}
