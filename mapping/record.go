package mapping

import (
	"net/http"
	"net/netip"
	"time"
)

// Record is one event on its way to the rows of the sinks of a source. The caller fills the exported fields; mappers
// read them and keep what they have parsed in the record, so that the second mapper of the same record parses nothing.
//
// A record is used by one goroutine at a time. It may be reused: call [Record.Reset] before the fields are set anew.
// Once a mapper has read the record its fields must not be changed, and the bytes of Body must not change, until the
// next Reset.
type Record struct {
	// Body is the event as it was received. It is not copied and never modified.
	Body []byte
	// Document, when set, is the event in place of Body, for records that are born as structured data.
	Document Document
	// Format tells how Body is parsed. The zero value takes it from the Content-Type field of Header.
	Format Format
	// Header holds the request headers under their canonical names. The values are not copied. The HTTP handler adds
	// Host, which net/http keeps elsewhere.
	Header http.Header
	// ClientIP is the address of the sender. The zero value means unknown and gives an empty cell.
	ClientIP netip.Addr
	// Received is the time at which the event arrived. The engine fills in a zero value; without an engine a zero
	// value gives an empty cell.
	Received time.Time

	state recordState
}

// JSON returns a record whose body is JSON. The bytes are not copied and must not change while the record is used.
func JSON(body []byte) *Record {
	return &Record{Body: body, Format: FormatJSON}
}

// Reset empties the record for the next event and keeps its internal buffers. No value that was parsed before is
// reachable afterwards.
func (r *Record) Reset() {
	r.Body, r.Document, r.Format, r.Header = nil, nil, FormatFromHeader, nil
	r.ClientIP, r.Received = netip.Addr{}, time.Time{}
	r.state.reset()
}
