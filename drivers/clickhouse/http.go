package clickhouse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// client sends statements to the HTTP interface.
type client struct {
	http    *http.Client
	hosts   []string // URLs
	current *atomic.Int64
	// authorize sets the headers that authenticate a request. It contains the secrets, so that no field of a printed client does.
	authorize func(context.Context, http.Header) error
	database  string
	product   string
}

// statement is a request.
type statement struct {
	settings map[string]string
	encoding string // of the body, "" for none
	// body opens the body, which is an SQL statement, followed by its rows.
	body func(context.Context) (io.ReadCloser, error)
	host string // "" for any
}

// maxAnswer limits the bytes that are read of a response.
const maxAnswer = 64 << 20

// send makes a request and returns the response. If a host cannot be reached, send uses the next host. Once something was sent, the outcome of a failed
// request is unknown.
func (c *client) send(ctx context.Context, s statement) (answer []byte, header http.Header, err error) {
	if s.host != "" {
		return c.sendTo(ctx, s.host, s)
	}
	first := c.current.Load()
	for i := range int64(len(c.hosts)) {
		n := (first + i) % int64(len(c.hosts))
		answer, header, err = c.sendTo(ctx, c.hosts[n], s)
		var op *net.OpError
		unreached := errors.As(err, &op) && ctx.Err() == nil
		if !unreached && !leave(ctx, err) {
			return answer, header, err
		}
		c.current.CompareAndSwap(n, (n+1)%int64(len(c.hosts))) // for the next request of any caller
		if !unreached || op.Op != "dial" {
			return nil, nil, err
		}
	}
	return nil, nil, err
}

// leave reports whether the next request should go to a different host.
func leave(ctx context.Context, err error) bool {
	if e, ok := errors.AsType[*serverError](err); ok {
		return e.Code == replicaReadOnly || e.Code == 0 && e.Status >= http.StatusBadGateway && e.Status <= http.StatusGatewayTimeout
	}
	return err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
}

func (c *client) sendTo(ctx context.Context, host string, s statement) ([]byte, http.Header, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	src, err := s.body(ctx)
	if err != nil {
		return nil, nil, err
	}
	// The transport may read the body after it has returned, until the end of ctx.
	body := &lentBody{r: src, ctx: ctx}
	defer src.Close()
	defer body.end()
	defer cancel()
	query := url.Values{"database": {c.database}, "default_format": {"JSONCompactStringsEachRow"}, "wait_end_of_query": {"1"}}
	for _, settings := range []map[string]string{whole, s.settings} {
		for name, value := range settings {
			query.Set(name, value)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, host+"?"+query.Encode(), body)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("User-Agent", c.product)
	if s.encoding != "" {
		req.Header.Set("Content-Encoding", s.encoding)
	}
	if err := c.authorize(ctx, req.Header); err != nil {
		return nil, nil, err
	}
	answer, header, err := c.answer(req)
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	cancel()
	if failed := body.end(); failed != nil {
		return nil, nil, failed // a slice could not be read, and the server only knows that the body was cut off
	}
	return answer, header, err
}

func (c *client) answer(req *http.Request) ([]byte, http.Header, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		var address *url.Error
		if errors.As(err, &address) {
			err = address.Err // without the URL
		}
		return nil, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	code := resp.Header.Get("X-ClickHouse-Exception-Code")
	if code == "" && resp.StatusCode == http.StatusOK {
		// A server or proxy that does not wait for the end of the statement appends an exception to the rows that it has sent.
		at := exception.FindIndex(answer)
		if at == nil {
			return answer, resp.Header, err
		}
		answer = answer[at[0]:]
	}
	n, _ := strconv.Atoi(code)
	if n == 0 {
		n = codeOf(string(answer))
	}
	return nil, nil, &serverError{Status: resp.StatusCode, Code: n, text: string(answer)}
}

// lentBody lends a reader to the transport, and takes it back.
type lentBody struct {
	mu     sync.Mutex // locked by a Read
	ctx    context.Context
	r      io.Reader
	failed error // of r
	ended  bool
}

var errEnded = errors.New("the request has ended")

func (b *lentBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended:
		return 0, errEnded
	case b.ctx.Err() != nil:
		return 0, b.ctx.Err()
	}
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && b.ctx.Err() == nil {
		b.failed = err
	}
	return n, err
}

// Close implements [io.Closer]. The owner of the reader closes it.
func (b *lentBody) Close() error { return nil }

// end waits for a running Read, and returns the error of the reader.
func (b *lentBody) end() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	return b.failed
}

// text returns the body of a statement without rows.
func text(sql string) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(sql)), nil }
}

// exec runs a statement. extra are settings.
func (c *client) exec(ctx context.Context, sql string, extra ...map[string]string) error {
	_, err := c.rows(ctx, sql, extra...)
	return err
}

// rows runs a query and returns its rows as texts.
func (c *client) rows(ctx context.Context, sql string, extra ...map[string]string) ([][]string, error) {
	return c.rowsFrom(ctx, "", sql, extra...)
}

func (c *client) rowsFrom(ctx context.Context, host, sql string, extra ...map[string]string) (rows [][]string, err error) {
	settings := make(map[string]string)
	for _, more := range extra {
		maps.Copy(settings, more)
	}
	answer, _, err := c.send(ctx, statement{settings: settings, body: text(sql), host: host})
	if err != nil {
		return nil, err
	}
	for in := json.NewDecoder(bytes.NewReader(answer)); ; {
		var row []string
		if err := in.Decode(&row); errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return nil, fmt.Errorf("the response of the server cannot be read: %w", err)
		}
		rows = append(rows, row)
	}
}
