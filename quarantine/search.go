package quarantine

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
)

const (
	// A page ends after pageHeads examined records, after pageBytes of content, or after pageTime, whichever comes first. The last record
	// is read to its end.
	pageHeads = 20_000
	pageBytes = 16 << 20
	pageTime  = time.Second
)

// Page is a part of a quarantine. See [Quarantine.Page].
type Page struct {
	// Records are in the order of their rejections.
	Records []RejectedRecord
	// Next is the [Filter.After] of the next page, and empty on the last page. It names the last examined record. NextAt is when that record
	// was rejected.
	Next   string
	NextAt time.Time
}

// Page is List for at most limit records, at least one, with bounded work. It examines at most 20,000 records, reads no further content
// after 16 MiB, and starts no further record after a second. So a page may be short or empty and have a Next.
func (q Quarantine) Page(ctx context.Context, f Filter, limit int) (p Page, err error) {
	start, heads, size := time.Now(), 0, int64(0)
	var last RejectedRecord
	for r, err := range q.List(ctx, Filter{After: f.After}) {
		if err != nil {
			return Page{}, err
		}
		if heads > 0 && (heads == pageHeads || size >= pageBytes || len(p.Records) >= max(limit, 1) || time.Since(start) >= pageTime) {
			p.Next, p.NextAt = last.Place, last.At
			return p, nil
		}
		heads, last = heads+1, r
		if !f.selects(&r) {
			continue
		}
		if f.Content != "" {
			size += r.Size
		}
		has, err := q.Contains(ctx, r.ID, f.Content)
		if err != nil {
			return Page{}, err
		}
		if has {
			p.Records = append(p.Records, r)
		}
	}
	return p, nil
}

// Contains reports whether a record has a text in any case, in the body that a replay would map, in the original body, in a header as
// "Name: value", in host, path or query. Bodies are searched as they are. The escapes of a JSON string are not decoded. It is false for a record
// that is not in the quarantine, and true for the empty text. It reads the whole record, and needs twice its size of memory.
func (q Quarantine) Contains(ctx context.Context, id, text string) (bool, error) {
	if text == "" {
		return true, nil
	}
	c, err := q.Get(ctx, id)
	switch {
	case errors.Is(err, buffer.ErrUnknownRejected):
		return false, nil
	case err != nil:
		return false, err
	}
	return c.contains(strings.ToLower(text)), nil
}

// contains looks for a text in lower case.
func (c *Content) contains(lower string) bool {
	in := func(text string) bool { return strings.Contains(strings.ToLower(text), lower) }
	rec := c.Record
	if in(rec.Host) || in(rec.Request.Path) || in(rec.Request.Query) {
		return true
	}
	for name, values := range rec.Header {
		for _, v := range values {
			if in(name + ": " + v) {
				return true
			}
		}
	}
	return bytes.Contains(bytes.ToLower(rec.Body), []byte(lower)) ||
		c.Edited && bytes.Contains(bytes.ToLower(c.Came), []byte(lower))
}
