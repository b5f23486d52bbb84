package otlpgrpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/forebay/forebay/internal/intake"
)

// callStream is the layer of a call below the messages of gRPC.
type callStream interface {
	// ReadMessageHeader fills p with the next bytes of the call. It returns io.EOF at its end.
	ReadMessageHeader(p []byte) error
	RecvCompress() string
	WriteStatus(*status.Status) error
}

// read reads the message of a call, and ends the call if that takes longer than Options.ReadTimeout. It reads the bytes itself,
// because gRPC buffers a whole message of the announced size before its memory can be counted. Two designs lost. A tap handle
// gives a call a deadline from its start, but a server takes only one and panics at a second. A counting buffer pool can
// neither refuse bytes nor tell whose they are.
func (s *server) read(ctx context.Context, req *request, dec func(any) error) error {
	if req.err = s.intake.Take(&req.call.body, req.headers+callBytes); req.err != nil {
		return nil // interceptors see the call all the same
	}
	stream, ok := grpc.ServerTransportStreamFromContext(ctx).(callStream)
	if !ok { // the server is not one of gRPC
		return dec(req)
	}
	timer := time.AfterFunc(s.opts.ReadTimeout, func() {
		_ = stream.WriteStatus(status.Convert(errSlow())) // the client may be gone. Reading ends.
	})
	data, err := s.receive(req.call, stream)
	if !timer.Stop() { // the client has its response, so nothing must be stored
		return errSlow()
	}
	switch {
	case errors.Is(err, intake.ErrBusy):
		req.err = err
	case err != nil:
		return err
	default:
		req.err = req.decode(data)
	}
	return nil
}

// receive returns the decompressed message of a call. It waits for the end of the call, because until then the client can fill
// its window. The memory for that stays reserved.
func (s *server) receive(c *callMemory, stream callStream) ([]byte, error) {
	if err := stream.ReadMessageHeader(c.prefix[:]); err != nil {
		return nil, broken(err)
	}
	compressed, size := c.prefix[0], int64(binary.BigEndian.Uint32(c.prefix[1:]))
	if err := s.intake.Read(&c.body, &messageReader{stream, size}, size, s.opts.MaxWireBytes); err != nil {
		return nil, s.unread(err, "as they are sent")
	}
	coding, known := codings[stream.RecvCompress()]
	switch err := stream.ReadMessageHeader(c.prefix[:1]); {
	case err == nil:
		return nil, status.Error(codes.Internal, "The call has more than one message.")
	case !errors.Is(err, io.EOF):
		return nil, broken(err)
	case compressed == 0:
		coding = intake.Identity
	case compressed != 1 || !known || coding == intake.Identity:
		return nil, status.Error(codes.Internal, "The message is compressed, and grpc-encoding does not say how.")
	}
	s.intake.Give(&c.body, callBytes)
	data, err := s.intake.Decode(&c.body, coding, s.opts.MaxMessageBytes)
	if err != nil {
		return nil, s.unread(err, "without its compression")
	}
	if len(data) > s.opts.MaxMessageBytes {
		return nil, s.unread(&intake.TooLargeError{Limit: s.opts.MaxMessageBytes}, "without its compression")
	}
	return data, nil
}

// unread is the status of a call whose message could not be read completely.
func (s *server) unread(err error, form string) error {
	var (
		large *intake.TooLargeError
		bad   *intake.DecodeError
	)
	switch {
	case errors.As(err, &large):
		return status.Error(codes.ResourceExhausted, fmt.Sprintf("The message has more than %d bytes %s. Send smaller batches.", large.Limit, form))
	case errors.As(err, &bad):
		return status.Error(codes.Internal, fmt.Sprintf("The message does not have the compression that grpc-encoding says: %v.", bad))
	}
	return broken(err)
}

// broken is the status of a call that ended within its message. Its client rarely gets it.
func broken(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return status.Error(codes.Internal, "The call ended before its message was complete.")
	}
	return err
}

func errSlow() error {
	return unavailable(time.Second, "The message did not arrive in time. Send the batch again.")
}

// messageReader reads the rest of a message.
type messageReader struct {
	stream callStream
	left   int64
}

func (r *messageReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.left)]
	if err := r.stream.ReadMessageHeader(p); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	r.left -= int64(len(p))
	return len(p), nil
}
