package buffertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// errInjected is the cause of every fault of the suites.
var errInjected = errors.New("injected fault")

const (
	// whole stands for "no fault" where the number of bytes before a fault is expected.
	whole = -1
	// An endless stream cancels the context after cancelAfter bytes, and gives up on the driver after stopAfter.
	cancelAfter = 1 << 20
	stopAfter   = 16 << 20
)

// stream is a reader of a slice that checks how it is used.
type stream struct {
	io.Reader
	open *atomic.Int64 // readers not yet closed
	done atomic.Bool
}

func newStream(r io.Reader, open *atomic.Int64) *stream {
	open.Add(1)
	return &stream{Reader: r, open: open}
}

func (s *stream) Close() error {
	if !s.done.Swap(true) {
		s.open.Add(-1)
	}
	return nil
}

// broken returns the first n bytes of data and then errInjected, even if n is all of them. [whole] means no fault.
func broken(data []byte, n int) io.Reader {
	if n == whole {
		return bytes.NewReader(data)
	}
	return io.MultiReader(bytes.NewReader(data[:n]), failingReader{})
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errInjected }

// endless repeats one row, cancels the context after a while, and then waits until its reader notices.
type endless struct {
	row    []byte
	cancel context.CancelFunc
	given  int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.given >= stopAfter {
		return 0, errors.New("the driver went on reading after the context was cancelled")
	}
	n := 0
	for n < len(p) {
		n += copy(p[n:], e.row[(e.given+n)%len(e.row):])
	}
	e.given += n
	if e.given >= cancelAfter {
		e.cancel()
	}
	return n, nil
}

// expectNoticed demands that the call which read the stream has ended with its context.
func (e *endless) expectNoticed(t tb, call string, err error) {
	t.Helper()
	if e.given >= stopAfter {
		t.Errorf("%s went on reading after its context was cancelled", call)
		return
	}
	expectRetryable(t, call+" whose context was cancelled in the middle", err, nil)
}

// source is a [driver.Content] with faults.
type source struct {
	reader   func() io.Reader
	failOpen bool
	open     atomic.Int64 // readers not yet closed
	used     atomic.Int64 // readings started
}

func bytesSource(data []byte) *source { return brokenSource(data, whole) }

func brokenSource(data []byte, n int) *source {
	return &source{reader: func() io.Reader { return broken(data, n) }}
}

func (s *source) Open() (io.ReadCloser, error) {
	s.used.Add(1)
	if s.failOpen {
		return nil, fmt.Errorf("open source: %w", errInjected)
	}
	return newStream(s.reader(), &s.open), nil
}

// WriteTo writes in pieces, as the buffer writes stored chunks.
func (s *source) WriteTo(w io.Writer) (n int64, err error) {
	s.used.Add(1)
	if s.failOpen {
		return 0, fmt.Errorf("open source: %w", errInjected)
	}
	r := s.reader()
	piece := make([]byte, 7000)
	for {
		got, rerr := r.Read(piece)
		wrote, werr := w.Write(piece[:got])
		n += int64(wrote)
		clear(piece) // the bytes belong to the source again
		switch {
		case werr != nil:
			return n, werr
		case rerr == io.EOF:
			return n, nil
		case rerr != nil:
			return n, rerr
		}
	}
}
