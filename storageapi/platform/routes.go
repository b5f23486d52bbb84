package platform

import (
	"cmp"
	"errors"
	"iter"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay/forebay/storageapi"
)

// route is one operation of the API. Handlers, errors for unknown paths and the OpenAPI documents are all derived from routes.
type route struct {
	method string // "" is any
	// path is a pattern of [http.ServeMux], below the version's path for storage and below the root for the others.
	path    string
	summary string
	// public calls need no token.
	public bool
	branch branchScope
	api    api

	// query names the parameters of the query, body the fields of the body. They have only names, because each is accepted in
	// several forms. "!" marks a required field, "*" stands for fields that are ignored.
	query, body string
	// status of a success. Default: 200, or 204 without a response body.
	status int
	// result has the type of the response body, nil for none, text for a body that is not JSON.
	result any
	// async says that async=true in the query makes a job of the call, which then returns 202.
	async bool

	// One of the two is set. read runs on one state of the store, while run does anything else. The result is the body.
	run  func(c *request) (any, error)
	read func(c *request, tx *txn) (any, error)
}

// text is a response that is not JSON.
type text string

// rawAnswer writes a response that is not JSON.
type rawAnswer func(w http.ResponseWriter)

// startedJob is the response 202 with a storage job.
type startedJob struct{ storageapi.Job }

// success is the status of a response without an error.
func (rt route) success(answer any) int {
	switch _, job := answer.(startedJob); {
	case job:
		return http.StatusAccepted
	case rt.status != 0:
		return rt.status
	case rt.result == nil && rt.described():
		return http.StatusNoContent
	}
	return http.StatusOK
}

// branchScope says whether a path exists with a branch before it.
type branchScope uint8

const (
	noBranch branchScope = iota
	optionalBranch
	requiredBranch
)

// api is the API to which a route belongs.
type api uint8

const (
	storageAPI api = iota
	queueAPI
	encryptionAPI
	portalAPI  // these and the following are in no OpenAPI document
	blobAPI    // the object store for the files
	absentAPI  // parts of the Storage API that are not there
	serviceAPI // services that are not there
)

// numericCode reports whether the code of an error is the status, as a number. Only the Storage API has words for codes.
func (a api) numericCode() bool { return a == queueAPI || a == encryptionAPI || a == serviceAPI }

// described reports whether the route is part of an OpenAPI document.
func (rt route) described() bool { return rt.api < portalAPI }

const storagePath = "/v2/storage"

// patterns are the paths under which the route is found.
func (rt route) patterns() []string {
	if rt.api != storageAPI {
		return []string{rt.path}
	}
	var out []string
	if rt.branch != requiredBranch {
		out = append(out, storagePath+rt.path)
	}
	if rt.branch != noBranch {
		out = append(out, storagePath+"/branch/{branch}"+rt.path)
	}
	return out
}

func (s *Server) allRoutes() []route {
	return slices.Concat(
		s.indexRoutes(), s.branchRoutes(), s.componentRoutes(), s.configurationRoutes(), s.versionRoutes(), s.rowRoutes(), s.metadataRoutes(),
		s.tokenRoutes(), s.bucketRoutes(), s.tableRoutes(), s.tableDataRoutes(), s.fileRoutes(), s.blobRoutes(), s.jobRoutes(), s.eventRoutes(), s.queueRoutes(),
		s.encryptionRoutes(), absentRoutes(), absentPartRoutes(),
	)
}

func (s *Server) newMux() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range s.routes {
		for _, pattern := range rt.patterns() {
			mux.Handle(strings.TrimSpace(rt.method+" "+pattern), s.handle(rt))
		}
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		other := r.URL.Path != storagePath && !strings.HasPrefix(r.URL.Path, storagePath+"/")
		s.writeError(w, r, other, refuse(http.StatusNotFound, "notFound", "There is no operation %s %s", r.Method, cut(r.URL.Path, 200)))
	})
	return mux
}

// request is an HTTP request in progress.
type request struct {
	s *Server
	w http.ResponseWriter
	r *http.Request
	// token is the caller's, nil for public routes.
	token *token
	// branch is the branch of the path, or the default one.
	branch string
	// dev says that the branch is not the default one.
	dev bool
	// jobBase is the address of the server in a job, which has no request.
	jobBase string

	// body holds the fields of the body, wrong the first fault outside of them.
	body  *input
	wrong error
}

// base is the address under which the caller reaches the server.
func (c *request) base() string {
	if c.r == nil {
		return c.jobBase
	}
	return c.s.baseURL(c.r)
}

func (c *request) branchNumber() int64 {
	id, _ := strconv.ParseInt(c.branch, 10, 64) // it was made of a number
	return id
}

// handle makes the handler of a route. It finds the token and the branch, and writes the response.
func (s *Server) handle(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &request{s: s, w: w, r: r, branch: strconv.FormatInt(s.defaultBranch.ID, 10)}
		defer func() {
			if v := recover(); v != nil {
				s.log.Error("platform: panic", "method", r.Method, "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
				s.writeError(w, r, rt.api.numericCode(), errors.New("panic"))
			}
		}()
		answer, err := c.run(rt)
		write, raw := answer.(rawAnswer)
		switch status := rt.success(answer); {
		case err != nil && rt.api == blobAPI:
			s.writeBlobError(w, r, err)
		case err != nil:
			s.writeError(w, r, rt.api.numericCode(), err)
		case raw:
			write(w)
		case status == http.StatusNoContent:
			w.WriteHeader(status)
		default:
			s.writeJSON(w, status, answer)
		}
	})
}

func (c *request) run(rt route) (any, error) {
	if !rt.public {
		if err := c.authenticate(); err != nil {
			return nil, err
		}
	}
	if rt.branch != noBranch {
		if err := c.findBranch(); err != nil {
			return nil, err
		}
	}
	if rt.run != nil {
		return rt.run(c)
	}
	return seen(c, func(tx *txn) (any, error) { return rt.read(c, tx) })
}

// A request may be malformed in several places. Readers of fields and parameters note each fault and continue with zero
// values. view, change and newJob return the faults before they do anything.

// fault returns the faults that were noted so far, or nil.
func (c *request) fault() error {
	if c.wrong == nil && c.body != nil {
		return c.body.err()
	}
	return c.wrong
}

// blame notes a fault outside of the body's fields. The first one counts.
func (c *request) blame(err error) {
	if c.wrong == nil {
		c.wrong = err
	}
}

// view runs read on one state of the store, unless the request is malformed.
func (c *request) view(read func(tx *txn) error) error {
	if err := c.fault(); err != nil {
		return err
	}
	return c.s.store.view(func(tx *txn) error {
		if err := read(tx); err != nil {
			return err
		}
		return c.fault()
	})
}

// seen returns what read makes of one state of the store, unless the request is malformed.
func seen[T any](c *request, read func(tx *txn) (T, error)) (out T, err error) {
	err = c.view(func(tx *txn) (err error) {
		out, err = read(tx)
		return err
	})
	return out, err
}

// newID takes an id for the object that the call makes. A failure counts as a fault of the request.
func (c *request) newID() int64 {
	id, err := c.s.store.ids.take()
	if err != nil {
		c.blame(err)
	}
	return id
}

// change runs do under a lock, as [store.update] does, and returns its result. Nothing is changed if the request is
// malformed, even if do notices it.
func (c *request) change(lock string, do func(tx *txn) (any, error)) (answer any, err error) {
	if err := c.fault(); err != nil {
		return nil, err
	}
	err = c.s.store.update(lock, func(tx *txn) (err error) {
		if answer, err = do(tx); err != nil {
			return err
		}
		return c.fault()
	})
	return answer, err
}

// input reads the fields of the body. code is the error code of a wrong field.
func (c *request) input(code string) *input {
	in := c.optionalInput(code)
	if in.list {
		c.blame(notAnObject())
	}
	return in
}

// optionalInput is input for a call whose fields are all optional. Old clients send [] instead of an empty object.
func (c *request) optionalInput(code string) *input {
	in, err := readInput(c.w, c.r)
	return c.reading(in, code, err)
}

// reading adopts in, so its faults become faults of the call.
func (c *request) reading(in *input, code string, err error) *input {
	if err != nil {
		c.blame(err)
		in = &input{}
	}
	in.code, c.body = code, in
	return in
}

func (c *request) query(name string) string { return c.r.URL.Query().Get(name) }

// queryFlag returns a boolean of the query, false if it is not there.
func (c *request) queryFlag(name string) bool {
	value, ok := parseFlag(c.query(name))
	if !ok {
		c.blame(refuse(http.StatusBadRequest, "storage.validation", "Parameter %s: want true or false", name))
	}
	return value
}

// queryInt returns a number of the query between 0 and maximum.
func (c *request) queryInt(name string, fallback, maximum int) int {
	text := c.query(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maximum {
		c.blame(refuse(http.StatusBadRequest, "storage.validation", "Parameter %s: want a whole number from 0 to %d", name, maximum))
	}
	return n
}

// page is the part of a list that the parameters offset and limit select.
type page struct{ skip, limit int }

// page reads offset and limit, 100 by default.
func (c *request) page(maximum int) page {
	return page{c.queryInt("offset", 0, 1<<30), cmp.Or(c.queryInt("limit", 100, maximum), 100)}
}

// anyRecord wants every record.
func anyRecord[R any](R) bool { return true }

// collect returns a page of the wanted records.
func collect[R, T any](p page, records iter.Seq[R], wanted func(R) bool, answer func(R) T) []T {
	list := []T{}
	for r := range records {
		switch {
		case !wanted(r):
			continue
		case p.skip > 0:
			p.skip--
			continue
		}
		if list = append(list, answer(r)); len(list) == p.limit {
			break
		}
	}
	return list
}

// queryList returns a list in the query, written name[]=a or name[0]=a, in the order of the numbers.
func (c *request) queryList(name string) []string {
	query := c.r.URL.Query()
	list := query[name+"[]"]
	type item struct {
		at     int
		values []string
	}
	var numbered []item
	for key, values := range query {
		text, ok := strings.CutPrefix(key, name+"[")
		if at, err := strconv.Atoi(strings.TrimSuffix(text, "]")); ok && err == nil {
			numbered = append(numbered, item{at, values})
		}
	}
	slices.SortFunc(numbered, func(a, b item) int { return cmp.Compare(a.at, b.at) })
	for _, i := range numbered {
		list = append(list, i.values...)
	}
	return list
}

// knownID returns the id of an object from the path. For text that is not a number the error is the same as for an unknown
// object, and shows the text.
func (c *request) knownID(name, object, code string) (int64, error) {
	id := c.pathID(name)
	if id <= 0 {
		return 0, refuse(http.StatusNotFound, code, "%s %q not found", object, cut(c.r.PathValue(name), 80))
	}
	return id, nil
}

// pathRecord reads the record whose number is the element {id} of the path.
func pathRecord[V any](c *request, tx *txn, object, code string, recordKey func(id int64) string) (v V, err error) {
	id, err := c.knownID("id", object, code)
	if err != nil {
		return v, err
	}
	return find[V](tx, recordKey(id), refuse(http.StatusNotFound, code, "%s %d not found", object, id))
}

// pathID returns a number in the path. It is 0, which is never an id, if the text is not a number.
func (c *request) pathID(name string) int64 {
	id, err := strconv.ParseInt(c.r.PathValue(name), 10, 64)
	if err != nil {
		return 0
	}
	return id
}

// runID is the run of the call, or nil.
func (c *request) runID() *string {
	if id := c.r.Header.Get(storageapi.RunIDHeader); id != "" && len(id) <= 255 {
		return &id
	}
	return nil
}

// creator names the caller's token.
func (c *request) creator() storageapi.TokenRef {
	return storageapi.TokenRef{ID: storageapi.IntID(c.token.ID), Description: c.token.Description}
}

// notNil makes an empty list [] instead of null.
func notNil[V any](list []V) []V {
	if list == nil {
		return []V{}
	}
	return list
}
