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

// A sender sends a request, which is encoded already, again and again over a connection of its own. Both senders are as
// small as they can be, to leave the CPU to the server.
type sender interface {
	// run sends while next reports true, and returns when all requests were answered with a success.
	run(next func() bool) error
	io.Closer
}

// httpSender posts over HTTP/1.1.
type httpSender struct {
	net.Conn
	in      *bufio.Reader
	request []byte
}

func newHTTPSender(address, path string, body []byte) (sender, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n", path, address, len(body))
	return &httpSender{conn, bufio.NewReader(conn), append([]byte(head), body...)}, nil
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
		case len(b) == 2: // the answer to a full success has no body
			return nil
		}
	}
}

// grpcSender calls over HTTP/2, with some calls in flight at a time.
type grpcSender struct {
	net.Conn
	framer *http2.Framer
	// first has the frames of the first call, and frames those of the others, whose fields are in the table of the connection.
	first, frames []byte
	size          int // of the message with its prefix
	most          int // of the calls in flight
	stream        uint32
	// window is what the server takes at the moment of the connection, and initial of a new stream.
	window, initial int
}

const frameSize = 16 << 10

func newGRPCSender(address, method, secret string, message []byte, most int) (sender, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	data := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	s := &grpcSender{Conn: conn, most: most, size: len(data), window: 65535, initial: 65535}
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
	s.framer = http2.NewFramer(conn, bufio.NewReader(conn))
	s.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	s.framer.SetReuseFrames()
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, err
	}
	if err := s.framer.WriteSettings(); err != nil {
		return nil, err
	}
	return s, s.framer.WriteWindowUpdate(0, 1<<30) // more than the answers are
}

func (s *grpcSender) run(next func() bool) error {
	more := true
	for flying := 0; more || flying > 0; {
		for more && flying < s.most && s.size <= min(s.window, s.initial) {
			if more = next(); more {
				if err := s.send(); err != nil {
					return err
				}
				flying++
			}
		}
		if !more && flying == 0 {
			break
		}
		done, err := s.read()
		if err != nil {
			return err
		}
		if done {
			flying--
		}
	}
	return nil
}

func (s *grpcSender) send() error {
	frames := s.frames
	if s.stream == 0 {
		frames = s.first
	}
	s.stream = s.stream + 1 | 1
	for i := 0; i < len(frames); {
		binary.BigEndian.PutUint32(frames[i+5:], s.stream)
		i += 9 + int(binary.BigEndian.Uint32(frames[i:])>>8)
	}
	s.window -= s.size
	_, err := s.Write(frames)
	return err
}

// read takes one frame and reports whether it ends a call.
func (s *grpcSender) read() (done bool, err error) {
	frame, err := s.framer.ReadFrame()
	if err != nil {
		return false, err
	}
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			return false, nil
		}
		if size, ok := f.Value(http2.SettingInitialWindowSize); ok {
			s.initial = int(size)
		}
		return false, s.framer.WriteSettingsAck()
	case *http2.PingFrame:
		if !f.IsAck() {
			return false, s.framer.WritePing(true, f.Data)
		}
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			s.window += int(f.Increment)
		}
	case *http2.MetaHeadersFrame:
		for _, field := range f.RegularFields() {
			if field.Name == "grpc-status" && field.Value != "0" {
				return false, fmt.Errorf("the answer has %v", f.Fields)
			}
		}
		return f.StreamEnded(), nil
	case *http2.RSTStreamFrame, *http2.GoAwayFrame:
		return false, fmt.Errorf("the answer is %v", f)
	}
	return false, nil
}
