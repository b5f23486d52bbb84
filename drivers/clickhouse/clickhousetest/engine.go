package clickhousetest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/klauspost/compress/zstd"
)

// library is the engine, libchdb.so.
type library struct {
	connect func(argc int32, argv **byte) *uintptr
	query   func(conn uintptr, sql string, length uintptr, format string, formatLength uintptr) uintptr
	buffer  func(result uintptr) *byte
	length  func(result uintptr) uintptr
	failure func(result uintptr) string
	written func(result uintptr) uint64
	destroy func(result uintptr)
}

func load(path string) (*library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, err
	}
	l := new(library)
	for name, f := range map[string]any{
		"chdb_connect": &l.connect, "chdb_query_n": &l.query, "chdb_result_buffer": &l.buffer, "chdb_result_length": &l.length,
		"chdb_result_error": &l.failure, "chdb_result_rows_written": &l.written, "chdb_destroy_query_result": &l.destroy,
	} {
		purego.RegisterLibFunc(f, handle, name)
	}
	return l, nil
}

// config gives the engine a Keeper in its memory, so that it creates replicated tables. They stay read-only, because the library has no address for other
// replicas.
const config = `<clickhouse><zookeeper><implementation>testkeeper</implementation></zookeeper><macros><shard>1</shard><replica>1</replica></macros></clickhouse>`

// open returns a connection. All connections of a process use one engine.
func (l *library) open(dir, config string) (uintptr, error) {
	args := []*byte{}
	for _, arg := range []string{"clickhouse", "--path=" + dir, "--config-file=" + config} {
		args = append(args, unsafe.SliceData(append([]byte(arg), 0)))
	}
	conn := l.connect(int32(len(args)), unsafe.SliceData(args))
	runtime.KeepAlive(args)
	if conn == nil {
		return 0, fmt.Errorf("the engine cannot open %s", dir)
	}
	return *conn, nil
}

// run runs a statement.
func (l *library) run(conn uintptr, sql, format string) (answer []byte, written uint64, failure string) {
	result := l.query(conn, sql, uintptr(len(sql)), format, uintptr(len(format)))
	if result == 0 {
		return nil, 0, "the engine has no result"
	}
	defer l.destroy(result)
	if failure = l.failure(result); failure != "" {
		const next = "SELECT 1" // until then system.processes contains the failed statement
		l.destroy(l.query(conn, next, uintptr(len(next)), format, uintptr(len(format))))
		return nil, 0, failure
	}
	if n := l.length(result); n > 0 {
		answer = bytes.Clone(unsafe.Slice(l.buffer(result), n))
	}
	return answer, l.written(result), ""
}

// serveEngine is the process of the server. It implements the part of the HTTP interface that the driver uses, on top of the engine.
func serveEngine(path, dir, address string) error {
	l, err := load(path)
	if err != nil {
		return err
	}
	e := &engine{library: l, dir: dir, conns: make(chan uintptr, 24)}
	settings := filepath.Join(dir, "config.xml")
	if err := os.WriteFile(settings, []byte(config), 0o600); err != nil {
		return err
	}
	for range cap(e.conns) {
		conn, err := l.open(filepath.Join(dir, "data"), settings)
		if err != nil {
			return err
		}
		e.conns <- conn
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return http.Serve(listener, e)
}

type engine struct {
	*library
	dir    string
	conns  chan uintptr
	bodies atomic.Int64
	queue  queue
	crash  atomic.Pointer[crash]
}

// crash is a moment at which the server is killed, see [Server.CrashAt].
type crash struct {
	inserts int64
	after   time.Duration

	seen atomic.Int64
}

var (
	errorCode = regexp.MustCompile(`^Code: (\d+)`)
	inputCall = regexp.MustCompile(`FROM input\(('(?:[^'\\]|\\.)*')\)`)
)

const endOfStatement = "FORMAT CustomSeparated\n"

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if r.URL.Path == "/crash" {
		inserts, _ := strconv.ParseInt(query.Get("inserts"), 10, 64)
		after, _ := strconv.ParseInt(query.Get("after"), 10, 64)
		e.crash.Store(&crash{inserts: inserts, after: time.Duration(after)})
		return
	}
	user, password, basic := r.BasicAuth()
	if !basic {
		user, password = r.Header.Get("X-ClickHouse-User"), r.Header.Get("X-ClickHouse-Key")
	}
	if user != User || password != Password {
		fail(w, http.StatusForbidden, 516, "Code: 516. DB::Exception: Authentication failed: password is incorrect. (AUTHENTICATION_FAILED)")
		return
	}
	if query.Has("query") {
		written, failure, err := e.insert(r, query)
		respond(w, nil, written, failure, err)
		return
	}
	sql, rows, err := e.read(r)
	if rows != "" {
		defer os.Remove(rows)
	}
	if err != nil {
		respond(w, nil, 0, "", err)
		return
	}
	if rows != "" {
		compression := map[string]string{"": "none", "gzip": "gzip", "zstd": "zstd"}[r.Header.Get("Content-Encoding")]
		sql = inputCall.ReplaceAllStringFunc(sql, func(call string) string {
			return "FROM file('" + rows + "', 'CustomSeparated', " + inputCall.FindStringSubmatch(call)[1] + ", '" + compression + "')"
		})
		e.aim()
	}
	sql += settings(sql, query)
	format := query.Get("default_format")
	if format == "Native" {
		format = "JSONCompactStringsEachRowWithNamesAndTypes"
	}
	conn := <-e.conns
	answer, written, failure := e.run(conn, sql, format)
	e.conns <- conn
	if query.Get("default_format") == "Native" && failure == "" {
		revision, _ := strconv.Atoi(query.Get("client_protocol_version"))
		answer, err = native(answer, revision)
	}
	if c := e.crash.Load(); failure == "" && rows != "" && c != nil && c.after < 0 && c.seen.Load() > c.inserts {
		kill()
	}
	respond(w, answer, written, failure, err)
}

// respond writes the outcome of a statement. err says that the request could not be read.
func respond(w http.ResponseWriter, answer []byte, written uint64, failure string, err error) {
	switch {
	case err != nil:
		fail(w, http.StatusBadRequest, 33, fmt.Sprintf("Code: 33. DB::Exception: Cannot read all data: %v. (CANNOT_READ_ALL_DATA)", err))
	case failure != "":
		code := 0
		if m := errorCode.FindStringSubmatch(failure); m != nil {
			code, _ = strconv.Atoi(m[1])
		}
		fail(w, http.StatusInternalServerError, code, failure)
	default:
		w.Header().Set("X-ClickHouse-Summary", fmt.Sprintf(`{"written_rows":"%d"}`, written))
		_, _ = w.Write(answer)
	}
}

// aim plans the crash for a statement with rows.
func (e *engine) aim() {
	c := e.crash.Load()
	if c == nil || c.seen.Add(1) <= c.inserts || c.after < 0 {
		return
	}
	if c.after == 0 {
		kill() // before the statement, which could end first
	}
	time.AfterFunc(c.after, kill) // even if the statement has ended
}

func kill() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		_ = p.Kill()
	}
	select {}
}

// read returns the statement of a request and the file with its rows.
func (e *engine) read(r *http.Request) (sql, rows string, err error) {
	body := bufio.NewReader(r.Body)
	encoding := r.Header.Get("Content-Encoding")
	var head io.Reader = body
	switch encoding {
	case "gzip":
		z, err := gzip.NewReader(body)
		if err != nil {
			return "", "", err
		}
		z.Multistream(false) // the statement, and the rows as they are
		head = z
	case "zstd":
		d, err := zstd.NewReader(body)
		if err != nil {
			return "", "", err
		}
		defer d.Close()
		head, body = d, nil
	case "":
	default:
		return "", "", errors.New("unknown Content-Encoding")
	}
	lines := bufio.NewReader(head)
	var text strings.Builder
	for !strings.HasSuffix(text.String(), endOfStatement) {
		line, err := lines.ReadString('\n')
		text.WriteString(line)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", "", err
		}
	}
	sql, found := strings.CutSuffix(text.String(), endOfStatement)
	if !found {
		return sql, "", nil
	}
	rest := io.Reader(body)
	if encoding != "gzip" {
		rest = lines
	} else if _, err := io.Copy(io.Discard, lines); err != nil { // to the end of the member
		return "", "", err
	}
	if encoding == "zstd" {
		r.Header.Set("Content-Encoding", "") // it is decoded
	}
	// A body that breaks off must not be executed, so it is stored first.
	rows = filepath.Join(e.dir, fmt.Sprintf("body-%d", e.bodies.Add(1)))
	f, err := os.Create(rows)
	if err != nil {
		return "", "", err
	}
	_, err = io.Copy(f, rest)
	return sql, rows, errors.Join(err, f.Close())
}

// notSettings are the other parameters of a request.
var notSettings = []string{"query", "database", "default_format", "wait_end_of_query", "client_protocol_version"}

// settings returns the settings of the request, as the end of a statement.
func settings(sql string, query url.Values) string {
	if !regexp.MustCompile(`^(?:INSERT|SELECT|ALTER TABLE .* DELETE )`).MatchString(sql) || strings.Contains(sql, " VALUES (") {
		return "" // other statements have settings of a different kind
	}
	var list []string
	for name, values := range query {
		if slices.Contains(notSettings, name) {
			continue
		}
		value := values[0]
		if _, err := strconv.ParseUint(value, 10, 64); err != nil { // limit = '0' is an error
			value = "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
		}
		list = append(list, name+" = "+value)
	}
	if list == nil {
		return ""
	}
	slices.Sort(list)
	return " SETTINGS " + strings.Join(list, ", ")
}

func fail(w http.ResponseWriter, status, code int, text string) {
	w.Header().Set("X-ClickHouse-Exception-Code", strconv.Itoa(code))
	http.Error(w, text, status)
}
