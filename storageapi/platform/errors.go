package platform

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/storageapi"
)

// apiError is an error that the caller of the API can do something about.
type apiError struct {
	status     int
	code       string
	message    string
	violations []storageapi.Violation
	results    any // of a job that fails with this error
	// retryAfter is when a call that was refused for now can be repeated. 0 means that it cannot.
	retryAfter time.Duration
}

func (e *apiError) Error() string { return e.message }

func refuse(status int, code, format string, args ...any) *apiError {
	return &apiError{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

func accessDenied(format string, args ...any) *apiError {
	return refuse(http.StatusForbidden, "accessDenied", "You don't have access to the resource: "+format, args...)
}

// newExceptionID makes an id that finds a failure in the log.
func newExceptionID() string { return "forebay-" + uuid.NewString() }

// explain returns the part of an error that the caller sees, and whether the server itself is at fault.
func explain(err error) (e *apiError, internal bool) {
	if errors.As(err, &e) {
		return e, false
	}
	if f := storeFailed(err); f != nil {
		e = refuse(http.StatusServiceUnavailable, "storage.unavailable", "The storage cannot be read or written at the moment, try again later")
		e.retryAfter = max(f.RetryAfter, time.Second)
		return e, true
	}
	return refuse(http.StatusInternalServerError, "internalError", "Internal server error"), true
}

// writeError is the only writer of error responses. numericCode writes the status as the code, see [api.numericCode].
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, numericCode bool, err error) {
	e, internal := explain(err)
	id := newExceptionID()
	if internal && r.Context().Err() == nil {
		s.log.ErrorContext(r.Context(), "platform: call failed", "method", r.Method, "path", r.URL.Path, "exception", id, "error", err)
	}
	body := storageapi.ErrorBody{Error: e.message, ExceptionID: id, Status: "error", Errors: e.violations}
	switch {
	case numericCode:
		body.Code = json.RawMessage(strconv.Itoa(e.status))
	case e.code != "":
		body.Code, _ = json.Marshal(e.code)
	}
	e.setRetry(w)
	s.writeJSON(w, e.status, body)
}

// setRetry tells the client when to try again.
func (e *apiError) setRetry(w http.ResponseWriter) {
	if e.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((e.retryAfter+time.Second-1)/time.Second)))
	}
}

// writeJSON writes a response. An error means that the client has gone.
func (s *Server) writeJSON(w http.ResponseWriter, status int, body any) {
	data, err := jsontext.Marshal(body)
	if err != nil {
		s.log.Error("platform: encode response", "error", err)
		status, data = http.StatusInternalServerError, []byte(`{"error":"Internal server error","code":"internalError","status":"error"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data)
}
