package fastserver

import (
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// response is an [http.ResponseWriter] that collects the response in memory.
type response struct {
	c      *conn
	header http.Header
	sorted []line // of header, while they are written
	// status is 0 until it is written.
	status int
	// head is the status line with the headers of the handler, later with everything. text is the body.
	head, text []byte
	// declared is the Content-Length of the handler, negative for none. written is the number of bytes it has tried to write.
	declared, written int64
	// connection is the field of this name, which is written last.
	connection []string
	// What the handler's headers have. close is "Connection: close".
	hasDate, hasType, close bool
}

func (w *response) begin(c *conn) {
	if len(w.sorted) > maxKeptFields {
		w.header, w.sorted = make(http.Header), nil
	}
	if cap(w.head)+cap(w.text) > maxKeptAnswer {
		w.head, w.text = nil, nil
	}
	clear(w.header)
	clear(w.sorted)
	*w = response{c: c, header: w.header, sorted: w.sorted[:0], head: w.head[:0], text: w.text[:0], declared: -1}
}

// Header returns the headers, which count until WriteHeader.
func (w *response) Header() http.Header { return w.header }

// WriteHeader panics for a status that cannot be written, as net/http does.
func (w *response) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	}
	if w.status != 0 || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	w.status = status
	if status == http.StatusOK {
		w.head = append(w.head, "HTTP/1.1 200 OK\r\n"...)
	} else {
		w.head = appendStatus(w.head, status)
	}
	for name, values := range w.header {
		w.sorted = append(w.sorted, line{name, values})
	}
	sortLines(w.sorted)
	for _, l := range w.sorted {
		if w.takes(l.name, l.values) {
			for _, value := range l.values {
				w.head = appendField(w.head, l.name, value)
			}
		}
	}
}

// line is a header of the handler with its values.
type line struct {
	name   string
	values []string
}

// sortLines is faster for few lines than a sort by comparisons through a function.
func sortLines(lines []line) {
	if len(lines) > 16 {
		slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.name, b.name) })
		return
	}
	for i := 1; i < len(lines); i++ {
		for k := i; k > 0 && lines[k].name < lines[k-1].name; k-- {
			lines[k], lines[k-1] = lines[k-1], lines[k]
		}
	}
}

func appendStatus(b []byte, status int) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	text := http.StatusText(status)
	if text == "" {
		text = "status code " + strconv.Itoa(status)
	}
	return append(append(b, text...), "\r\n"...)
}

// takes records the effect of a header of the handler on the response, and reports whether the header is sent.
func (w *response) takes(name string, values []string) bool {
	switch name {
	case "Content-Length":
		if !hasBody(w.status) || len(values) == 0 {
			return false
		}
		n, err := strconv.ParseInt(strings.TrimSpace(values[0]), 10, 64)
		if err != nil || n < 0 {
			return false
		}
		w.declared = n
		return true
	case "Content-Type":
		w.hasType = true
		return w.status != http.StatusNotModified
	case "Content-Encoding":
		w.hasType = w.hasType || len(values) > 0 && values[0] != "" // the type of an encoded body cannot be detected
	case "Date":
		w.hasDate = true
	case "Connection":
		w.connection = values
		w.close = len(values) > 0 && values[0] == "close"
		return false
	case "Transfer-Encoding", "Trailer":
		return false
	}
	return !strings.HasPrefix(name, http.TrailerPrefix) && name != "" && all(name, tokenByte)
}

// hasBody reports whether a response with this status can have a body.
func hasBody(status int) bool {
	return status != http.StatusSwitchingProtocols && status != http.StatusNoContent && status != http.StatusNotModified
}

// appendField appends a line. A line end in a value would begin another field, so it becomes a blank.
func appendField(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	at := len(b)
	b = append(b, value...)
	for i, c := range b[at:] {
		if c == '\r' || c == '\n' {
			b[at+i] = ' '
		}
	}
	if n := len(value); n > 0 && (b[at] <= ' ' || b[len(b)-1] <= ' ') {
		b = append(b[:at], textproto.TrimString(string(b[at:]))...)
	}
	return append(b, "\r\n"...)
}

// Write gathers the body. It returns [http.ErrContentLength] for more than the handler has announced.
func (w *response) Write(p []byte) (int, error) { return write(w, p) }

// WriteString is Write for a text.
func (w *response) WriteString(p string) (int, error) { return write(w, p) }

func write[T []byte | string](w *response, p T) (int, error) {
	if err := w.room(len(p)); err != nil {
		return 0, err
	}
	w.text = append(w.text, p...)
	return len(p), nil
}

func (w *response) room(n int) error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if n == 0 {
		return nil
	}
	if !hasBody(w.status) {
		return http.ErrBodyNotAllowed
	}
	if w.written += int64(n); w.declared >= 0 && w.written > w.declared {
		return http.ErrContentLength
	}
	return nil
}

// finish makes w.head the whole response. It reports whether the connection continues after it.
func (w *response) finish() (goesOn bool) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	c := w.c
	goesOn = !w.close && !c.request.Close && !c.s.stopping.Load() && c.body.skip()
	b := w.head
	if !w.hasDate {
		b = c.s.dates.append(b, c.done)
	}
	if hasBody(w.status) {
		if !w.hasType && len(w.text) > 0 {
			b = appendField(b, "Content-Type", http.DetectContentType(w.text))
		}
		if w.declared < 0 {
			b = append(b, "Content-Length: "...)
			b = strconv.AppendInt(b, int64(len(w.text)), 10)
			b = append(b, "\r\n"...)
		}
	}
	if !goesOn {
		b = append(b, "Connection: close\r\n"...)
	} else {
		for _, value := range w.connection {
			b = appendField(b, "Connection", value)
		}
	}
	b = append(b, "\r\n"...)
	w.head = append(b, w.text...)
	// A client that waits for the rest of its response, or has sent half a request, receives nothing more.
	return goesOn && !c.body.broken && (w.declared < 0 || int64(len(w.text)) == w.declared)
}

// dates has the line of the current second.
type dates struct{ line atomic.Pointer[dateLine] }

type dateLine struct {
	second int64
	text   string
}

func (d *dates) append(b []byte, now time.Time) []byte {
	line := d.line.Load()
	if second := now.Unix(); line == nil || line.second != second {
		line = &dateLine{second, "Date: " + now.UTC().Format(http.TimeFormat) + "\r\n"}
		d.line.Store(line)
	}
	return append(b, line.text...)
}
