package clickhousetest

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"
)

// insertStatement is a statement in the parameter query, whose rows are the body.
var insertStatement = regexp.MustCompile(`(?s)^\s*(INSERT INTO .*?)\s+(FORMAT \w+)\s*$`)

// insert runs an INSERT whose rows are the body of the request. As on a server, the rows wait for others in a queue unless async_insert is 0.
func (e *engine) insert(r *http.Request, query url.Values) (written uint64, failure string, err error) {
	m := insertStatement.FindStringSubmatch(query.Get("query"))
	if m == nil {
		return 0, "", errors.New("the parameter query must be an INSERT with a FORMAT")
	}
	body := io.Reader(r.Body)
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "":
	case "gzip":
		if body, err = gzip.NewReader(body); err != nil {
			return 0, "", err
		}
	default:
		return 0, "", fmt.Errorf("unknown Content-Encoding %q", encoding)
	}
	rows, err := io.ReadAll(body)
	if err != nil {
		return 0, "", err
	}
	statement := insertOf{m[1], settings(m[1], query) + " " + m[2]}
	if query.Get("async_insert") != "0" {
		failure = e.queue.insert(e, statement, rows)
		return 0, failure, nil
	}
	written, failure = e.runRows(statement, rows)
	return written, failure, nil
}

// insertOf is an INSERT without its rows.
type insertOf struct{ table, format string }

// runRows stores rows through a file. The library ends rows in a statement at an empty line, which rows in Native may contain.
func (e *engine) runRows(statement insertOf, rows []byte) (written uint64, failure string) {
	file := filepath.Join(e.dir, fmt.Sprintf("body-%d", e.bodies.Add(1)))
	if err := os.WriteFile(file, rows, 0o600); err != nil {
		return 0, err.Error()
	}
	defer os.Remove(file)
	conn := <-e.conns
	defer func() { e.conns <- conn }()
	_, written, failure = e.run(conn, statement.table+" FROM INFILE '"+file+"'"+statement.format, "Null")
	return written, failure
}

// The defaults of a server for asynchronous inserts.
const (
	leastWait    = 50 * time.Millisecond
	mostWait     = 200 * time.Millisecond
	mostQueued   = 10 << 20
	waitIncrease = 1.2
)

// queue implements asynchronous inserts, which the library lacks. It stores the rows of equal statements with one INSERT. The first of them waits for
// leastWait or, while inserts are frequent, for up to mostWait.
type queue struct {
	mu   sync.Mutex
	open map[insertOf]*queued // by statement
	wait time.Duration
	last time.Time // of the last insert
}

type queued struct {
	rows    []byte
	end     *time.Timer
	stored  chan struct{} // closed when the rows are stored, or failure is set
	failure string
}

// insert returns when the rows are stored, as with wait_for_async_insert = 1.
func (q *queue) insert(e *engine, statement insertOf, rows []byte) (failure string) {
	q.mu.Lock()
	now := time.Now()
	switch since := now.Sub(q.last); {
	case since < leastWait:
		q.wait = time.Duration(float64(q.wait) * waitIncrease)
	case since > q.wait:
		q.wait = time.Duration(float64(q.wait) / waitIncrease)
	}
	q.wait, q.last = min(max(q.wait, leastWait), mostWait), now
	in := q.open[statement]
	if in == nil {
		in = &queued{stored: make(chan struct{})}
		in.end = time.AfterFunc(q.wait, func() { q.store(e, statement, in) })
		if q.open == nil {
			q.open = make(map[insertOf]*queued)
		}
		q.open[statement] = in
	}
	if in.rows = append(in.rows, rows...); len(in.rows) >= mostQueued && in.end.Stop() {
		in.end = time.AfterFunc(0, func() { q.store(e, statement, in) })
	}
	q.mu.Unlock()
	<-in.stored
	return in.failure
}

func (q *queue) store(e *engine, statement insertOf, in *queued) {
	q.mu.Lock()
	delete(q.open, statement)
	q.mu.Unlock()
	_, in.failure = e.runRows(statement, in.rows)
	close(in.stored)
}
