package mapping

import (
	"net/http"
	"net/netip"
	"time"
)

// Record is one event on its way to the rows of the sinks of a source. The caller fills the exported fields. Mappers
// read them and keep the parsed body, so that the second mapper of the same record parses nothing.
//
// A record is used by one goroutine at a time. It may be reused. Call [Record.Reset] before the fields are set again.
// Once a mapper has read the record its fields must not be changed, and the bytes of Body must not change, until the
// next Reset or [Record.Release].
type Record struct {
	// Body is the event as it was received. It is not copied and never modified.
	Body []byte
	// Document, when set, replaces Body. The event is then structured data.
	Document Document
	// Format says how Body is parsed. The zero value uses the Content-Type of Header.
	Format Format
	// Header holds the request headers under their canonical names. The map is only read, the values are not copied.
	Header http.Header
	// Host, when set, replaces the Host header of Header because net/http keeps it apart from the others.
	Host string
	// Request is the request that brought the event. No column reads it, but the quarantine of an engine keeps it, so that people find the sender.
	Request RequestLine
	// ClientIP is the address of the sender. The zero value means unknown and gives an empty cell.
	ClientIP netip.Addr
	// Received is the arrival time. The engine fills in a zero value. Without an engine a zero value gives an empty cell.
	Received time.Time

	state *recordState // nil until a mapper needs it, and after a release
}

// RequestLine is the first line of an HTTP request, or empty for an event that came another way.
type RequestLine struct {
	// Method is for example "POST".
	Method string
	// Path has no secret in it. Query is as it was sent.
	Path, Query string
}

// JSON returns a record whose body is JSON. The bytes are not copied and must not change while the record is used.
func JSON(body []byte) *Record { return &Record{Body: body, Format: FormatJSON} }

// Reset empties the record for the next event. It keeps the internal buffers, but nothing that was parsed is reachable
// afterwards.
func (r *Record) Reset() {
	r.Body, r.Document, r.Format, r.Header, r.Host = nil, nil, FormatFromHeader, nil, ""
	r.Request, r.ClientIP, r.Received = RequestLine{}, netip.Addr{}, time.Time{}
	if s := r.state; s != nil && s.owner == r {
		s.reset()
	} else {
		r.state = nil
	}
}

// Release returns the memory of what mappers have parsed to a pool and leaves the fields as they are. The record can be mapped
// again, and it is then parsed again. Call it when many records are kept after their rows were made, for example while they wait
// for the disk. The next records are then mapped in memory that is still in the processor's caches.
func (r *Record) Release() {
	s := r.state
	r.state = nil
	if s == nil || s.owner != r {
		return
	}
	s.reset()
	s.owner = nil
	states.Put(s)
}
