package platform

import (
	"cmp"
	"errors"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay/forebay/storageapi"
)

// route is one operation of the API. The handlers, the errors for paths that do not exist and the machine-readable
// description are all made of the routes.
type route struct {
	method string // "" is any
	// path is a pattern of [http.ServeMux], below the version's path for storage and below the root for the others.
	path string
	// summary is the text of the description.
	summary string
	// public calls need no token.
	public bool
	branch branchScope
	api    api
	run    func(c *call) (reply, error)
}

// branchScope says whether a path exists with a branch in front of it.
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
	portalAPI
	encryptionAPI
	blobAPI   // the object store behind the files, which is not described
	absentAPI // services that are not there, which are not described
)

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
		s.indexRoutes(), s.branchRoutes(), s.branchMetadataRoutes(), s.componentRoutes(), s.configurationRoutes(), s.versionRoutes(), s.rowRoutes(),
		s.configurationMetadataRoutes(), s.tokenRoutes(), s.bucketRoutes(), s.tableRoutes(), s.tableDataRoutes(),
		s.tableMetadataRoutes(), s.fileRoutes(), s.blobRoutes(), s.jobRoutes(), s.eventRoutes(), s.queueRoutes(),
		s.encryptionRoutes(), s.absentRoutes(), absentPartRoutes(),
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
		s.writeError(w, r, false, refuse(http.StatusNotFound, "notFound", "There is no operation %s %s", r.Method, cut(r.URL.Path, 200)))
	})
	return mux
}

// reply is a successful answer.
type reply struct {
	status int
	body   any
	// write, if not nil, writes the answer instead.
	write func(w http.ResponseWriter)
}

func ok(body any) (reply, error)       { return reply{status: http.StatusOK, body: body}, nil }
func created(body any) (reply, error)  { return reply{status: http.StatusCreated, body: body}, nil }
func accepted(body any) (reply, error) { return reply{status: http.StatusAccepted, body: body}, nil }
func noContent() (reply, error)        { return reply{status: http.StatusNoContent}, nil }
func failed(err error) (reply, error)  { return reply{}, err }

// answered is ok for what was read without an error.
func answered(body any, err error) (reply, error) {
	if err != nil {
		return failed(err)
	}
	return ok(body)
}

// call is one request that is being answered.
type call struct {
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
}

// base is the address under which the caller reaches the server.
func (c *call) base() string {
	if c.r == nil {
		return c.jobBase
	}
	return c.s.baseURL(c.r)
}

// branchNumber is the id of the branch.
func (c *call) branchNumber() int64 {
	id, _ := strconv.ParseInt(c.branch, 10, 64) // it was made of a number
	return id
}

// handle makes the handler of a route: it finds the token and the branch, and writes the answer.
func (s *Server) handle(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{s: s, w: w, r: r, branch: strconv.FormatInt(s.defaultBranch.ID, 10)}
		defer func() {
			if v := recover(); v != nil {
				s.log.Error("platform: panic", "method", r.Method, "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
				s.writeError(w, r, rt.api == queueAPI, errors.New("panic"))
			}
		}()
		result, err := c.run(rt)
		switch {
		case err != nil && rt.api == blobAPI:
			s.writeBlobError(w, r, err)
		case err != nil:
			s.writeError(w, r, rt.api == queueAPI || rt.api == encryptionAPI, err)
		case result.write != nil:
			result.write(w)
		case result.status == http.StatusNoContent:
			w.WriteHeader(result.status)
		default:
			s.writeJSON(w, result.status, result.body)
		}
	})
}

func (c *call) run(rt route) (reply, error) {
	if !rt.public {
		if err := c.authenticate(); err != nil {
			return reply{}, err
		}
	}
	if rt.branch != noBranch {
		if err := c.findBranch(); err != nil {
			return reply{}, err
		}
	}
	return rt.run(c)
}

// input reads the body of a call that is about fields.
func (c *call) input() (*input, error) {
	in, err := c.optionalInput()
	if err == nil && in.list {
		return nil, notAnObject()
	}
	return in, err
}

// optionalInput reads the body of a call that has all it needs in its path. Old clients send [] when they have nothing to
// add.
func (c *call) optionalInput() (*input, error) { return readInput(c.w, c.r) }

// query returns a parameter of the query.
func (c *call) query(name string) string { return c.r.URL.Query().Get(name) }

// queryFlag returns a boolean of the query, false if it is not there.
func (c *call) queryFlag(name string) (bool, error) {
	value, ok := parseFlag(c.query(name))
	if !ok {
		return false, refuse(http.StatusBadRequest, "storage.validation", "Parameter %s: want true or false", name)
	}
	return value, nil
}

// queryInt returns a number of the query between 0 and maximum.
func (c *call) queryInt(name string, fallback, maximum int) (int, error) {
	text := c.query(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maximum {
		return 0, refuse(http.StatusBadRequest, "storage.validation", "Parameter %s: want a whole number from 0 to %d", name, maximum)
	}
	return n, nil
}

// paging returns limit and offset of a list. A limit of 0 means the default.
func (c *call) paging(maximum int) (limit, offset int, err error) {
	if limit, err = c.queryInt("limit", 100, maximum); err != nil {
		return 0, 0, err
	}
	if limit == 0 {
		limit = 100
	}
	offset, err = c.queryInt("offset", 0, 1<<30)
	return limit, offset, err
}

// queryList returns a list in the query, written name[]=a or name[0]=a, in the order of the numbers.
func (c *call) queryList(name string) []string {
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

// knownID returns the number in the path that is the id of an object. A text that is no number is the id of none: the
// error says so in the words of the object, and with the text as it came.
func (c *call) knownID(name, object, code string) (int64, error) {
	id := c.pathID(name)
	if id <= 0 {
		return 0, refuse(http.StatusNotFound, code, "%s %q not found", object, cut(c.r.PathValue(name), 80))
	}
	return id, nil
}

// pathID returns a number in the path, which is 0 and thereby nothing's id if it is none.
func (c *call) pathID(name string) int64 {
	id, err := strconv.ParseInt(c.r.PathValue(name), 10, 64)
	if err != nil {
		return 0
	}
	return id
}

// runID is the run of the call, or nil.
func (c *call) runID() *string {
	if id := c.r.Header.Get(storageapi.RunIDHeader); id != "" && len(id) <= 255 {
		return &id
	}
	return nil
}

// creator names the caller's token.
func (c *call) creator() storageapi.TokenRef {
	return storageapi.TokenRef{ID: storageapi.IntID(c.token.ID), Description: c.token.Description}
}

// notNil makes an empty list [] instead of null.
func notNil[V any](list []V) []V {
	if list == nil {
		return []V{}
	}
	return list
}
