package intake

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// ErrBusy says that the requests in progress have reached the memory bound. The request can be sent again later.
var ErrBusy = errors.New("too many requests are in progress")

// TooLargeError says that a body exceeds its limit.
type TooLargeError struct {
	// Limit is in bytes.
	Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the body has more than %d bytes", e.Limit)
}

// Intake reads bodies within one memory bound for all of them. It is safe for concurrent use.
type Intake struct {
	most  int64
	taken atomic.Int64
	// slots bounds how many decoders with large windows work at once. They only wait for the CPU, so more of them than CPUs
	// would take memory and gain no time.
	slots chan struct{}

	gzips, deflates, zlibs, zstds, snappies, lz4s sync.Pool
}

// zstdWindow bounds the memory that a frame can request before any of it is decoded. RFC 8878 recommends at least 8 MB.
const zstdWindow = 8 << 20

// New returns an Intake whose bodies together take at most most bytes.
func New(most int) *Intake {
	in := &Intake{most: int64(most), slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
	in.gzips.New = func() any { return new(gzip.Reader) }
	in.deflates.New = func() any { return flate.NewReader(nil) }
	in.zlibs.New = func() any {
		z, _ := zlib.NewReader(strings.NewReader("\x78\x9c")) // a header, without which there is no reader
		return z
	}
	in.zstds.New = func() any {
		z, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
		return z // an error would be one of the options
	}
	in.snappies.New = func() any { return snappy.NewReader(nil) }
	in.lz4s.New = func() any { return new(lz4Reader) }
	return in
}

// Taken returns how many bytes the requests in progress hold.
func (in *Intake) Taken() int64 { return in.taken.Load() }

// Body is the memory of one request. The zero value is ready to use. It belongs to one goroutine at a time, and to one
// Intake from the first call until Release.
type Body struct {
	// Sent is the body as it was sent.
	Sent    []byte
	decoded []byte
	held    int // bytes of Intake.taken
	// heldSent and heldDecoded are the parts of held for the two buffers.
	heldSent, heldDecoded int
}

// Take reserves n more bytes for the request, or returns ErrBusy.
func (in *Intake) Take(b *Body, n int) error {
	if in.taken.Add(int64(n)) > in.most {
		in.taken.Add(int64(-n))
		return ErrBusy
	}
	b.held += n
	return nil
}

// Room returns how much more the request may ever take. It is at most half of the common bound, so that other requests have
// room too. Waiting does not help a request that needs more.
func (in *Intake) Room(b *Body) int { return min(int(in.most)/2, int(in.most)-b.held) }

// Give returns n bytes that the request holds.
func (in *Intake) Give(b *Body, n int) {
	in.taken.Add(int64(-n))
	b.held -= n
}

// Release returns all bytes that the request holds. The buffers stay for the next request.
func (in *Intake) Release(b *Body) {
	in.Give(b, b.held)
	b.heldSent, b.heldDecoded = 0, 0
}

// Drop frees the buffers of a request that no longer needs its body, except small ones, which the next request can use.
func (in *Intake) Drop(b *Body) {
	in.drop(b, &b.Sent, &b.heldSent)
	in.drop(b, &b.decoded, &b.heldDecoded)
}

func (in *Intake) drop(b *Body, buf *[]byte, held *int) {
	if cap(*buf) > maxKept {
		*buf = nil
		in.Give(b, *held)
		*held = 0
	}
}

// maxKept is the largest buffer that is kept for later requests.
const maxKept = 256 << 10

// Reuse prepares the memory for another request, after Release. It returns false if the memory is too large to be kept.
func (b *Body) Reuse() bool {
	b.Sent, b.decoded = b.Sent[:0], b.decoded[:0]
	return cap(b.Sent) <= maxKept && cap(b.decoded) <= maxKept
}

// step is the unit in which memory is reserved.
const step = 16 << 10

// Read reads all of src, at most limit bytes, into b.Sent. announced is the length, negative if unknown. Memory is reserved
// as bytes arrive and not by the announced length, so a client pays with traffic for the memory it takes. An error is
// ErrBusy, a [*TooLargeError], or an error of src.
func (in *Intake) Read(b *Body, src io.Reader, announced int64, limit int) error {
	return in.readAll(b, &b.Sent, &b.heldSent, src, announced, limit)
}

// readAll reads into one of the buffers of b.
func (in *Intake) readAll(b *Body, to *[]byte, held *int, src io.Reader, announced int64, limit int) error {
	most := limit + 1 // one byte more shows that the limit is exceeded
	if announced >= 0 {
		if announced > int64(limit) {
			return &TooLargeError{limit}
		}
		most = int(announced) + 1 // one byte more, because a reader may report the end only after the last byte
	}
	buf := (*to)[:0]
	defer func() { *to = buf }()
	for {
		if *held == len(buf) {
			size := min(len(buf)+step, most)
			if size == len(buf) {
				return &TooLargeError{limit}
			}
			if size > cap(buf) {
				size = min(max(size, 2*cap(buf)), most)
			}
			if err := in.Take(b, size-*held); err != nil {
				return err
			}
			*held = size
			if size > cap(buf) {
				larger := make([]byte, len(buf), size)
				copy(larger, buf)
				buf = larger
			}
		}
		n, err := src.Read(buf[len(buf):*held])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf) > limit:
			return &TooLargeError{limit}
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
