package extractor

import (
	"crypto/sha256"
	"fmt"
	"io"
)

// mostRequests bounds the requests that a job run remembers, to about 10 MB. A longer run forgets them all and begins again, so it still
// finds a loop of fewer pages.
const mostRequests = 1 << 18

// requestsMade contains the requests for pages of one job run. It ends a pagination that leads back to one of them.
type requestsMade struct {
	pages map[[16]byte]int // the page that a request was made for, by a checksum of the request
	// repeated is set while a request repeats the previous request. It is the error of the run if the page contains different items.
	repeated error
}

// A repeatError says that the pagination leads back to a request that was made already.
type repeatError struct {
	method, url string
	page        int
	source      string
}

func (e *repeatError) Error() string {
	return fmt.Sprintf("the request repeats the one for page %d (%s %s), because %s has the same value again: the pagination would never end. "+
		"If the API marks its last page so, add a stopping condition such as limitStop or nextPageFlag", e.page, e.method, e.url, e.source)
}

// add takes the request for a page into account. source names the value that the request was made from. The first repeat of a request directly
// after it is made nevertheless, because the same page again, or an empty page, is how some APIs end.
func (m *requestsMade) add(r *request, shown, source string, number int) error {
	h := sha256.New()
	_, _ = io.WriteString(h, r.method+"\x00"+r.url.String()+"\x00")
	h.Write(r.body)
	key := [16]byte(h.Sum(nil))
	m.repeated = nil
	if page, made := m.pages[key]; made {
		m.repeated = &repeatError{method: r.method, url: shown, page: page, source: source}
		if page < number-1 {
			return m.repeated
		}
		return nil
	}
	if m.pages == nil || len(m.pages) >= mostRequests {
		m.pages = make(map[[16]byte]int)
	}
	m.pages[key] = number
	return nil
}
