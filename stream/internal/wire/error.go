package wire

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/forebay/forebay/stream/requestid"
)

// Error is a response that is not a success. Handlers report failures in no other way.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Name is the machine-readable error, for example "stream.in.bodyTooLarge".
	Name string
	// Message is for the client, in full sentences without internals or secrets.
	Message string
	// RetryAfter is the value of the Retry-After header, rounded up to seconds. Zero omits it.
	RetryAfter time.Duration
	// Unread says that the rest of the body is not needed, see [LeaveBody].
	Unread bool
	// ExceptionID is the platform's, if the platform caused the error. Otherwise errors from 500 on get a new one.
	ExceptionID string
	// Cause is logged and never sent. It is set when the service is at fault.
	Cause error
}

func (e *Error) Error() string { return e.Name + ": " + e.Message }
func (e *Error) Unwrap() error { return e.Cause }

// Prefix begins the names of a handler's errors.
type Prefix string

// Errorf returns an error whose name is the prefix and the given name.
func (p Prefix) Errorf(status int, name, format string, args ...any) *Error {
	return &Error{Status: status, Name: string(p) + name, Message: fmt.Sprintf(format, args...)}
}

// Retry returns e with a Retry-After header.
func (e *Error) Retry(after time.Duration) *Error {
	e.RetryAfter = after
	return e
}

// leaveBody returns e as an error after which the rest of the body is not read.
func (e *Error) leaveBody() *Error {
	e.Unread = true
	return e
}

// ErrorBody is the JSON body of every error.
type ErrorBody struct {
	// StatusCode repeats the status of the response.
	StatusCode int `json:"statusCode" doc:"Status of the response."`
	// Error is the name of the error.
	Error string `json:"error" doc:"Name of the error, for programs."`
	// Message is for people.
	Message string `json:"message" doc:"Sentences for people."`
	// ExceptionID is the id that a client quotes to support.
	ExceptionID string `json:"exceptionId,omitempty" doc:"What to tell to support; from status 500 on, or if the platform gave one."`
}

// Body returns the body for e. requestID comes from [SetCommonHeaders].
func (e *Error) Body(requestID string) ErrorBody {
	b := ErrorBody{StatusCode: e.Status, Error: e.Name, Message: e.Message, ExceptionID: e.ExceptionID}
	if b.ExceptionID == "" && e.Status >= http.StatusInternalServerError {
		b.ExceptionID = ExceptionID(requestID)
	}
	return b
}

// ExceptionID returns the id that a client quotes to support.
func ExceptionID(requestID string) string { return "stream-" + requestID }

// Header values are shared by all responses. Nothing writes into them.
var (
	anyValue       = []string{"*"}
	jsonType       = []string{"application/json"}
	requestIDField = http.CanonicalHeaderKey("X-Request-Id")
)

// WarningField describes a problem although the request was successful.
const WarningField = "X-Stream-Warning"

// SetCommonHeaders gives a response its request id and lets pages of every origin read it. It returns the id.
func SetCommonHeaders(h http.Header) (requestID string) {
	id := requestid.New(time.Now())
	h[requestIDField] = []string{id}
	h["Access-Control-Allow-Origin"] = anyValue
	h["Access-Control-Expose-Headers"] = anyValue
	return id
}

// WriteError responds to a request with e, and logs e if the service is at fault.
func WriteError(w http.ResponseWriter, r *http.Request, logger *slog.Logger, requestID string, e *Error) {
	LogFault(r, logger, requestID, e)
	SetRetryAfter(w.Header(), e.RetryAfter)
	WriteJSON(w, e.Status, e.Body(requestID))
}

// LeaveBody closes the connection after the response if r has a body. Call it before a response that needs no more of the
// body. Otherwise net/http reads the rest, up to the ReadTimeout, before it sends the response. HTTP/2 ends only the stream.
func LeaveBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
}

// LogFault logs e if it has a cause. It never logs the URL, which has the secret in ingestion requests.
func LogFault(r *http.Request, logger *slog.Logger, requestID string, e *Error, attrs ...slog.Attr) {
	if e.Cause == nil {
		return
	}
	attrs = append(attrs, slog.String("requestId", requestID), slog.String("error", e.Name), slog.Any("cause", e.Cause),
		slog.String("next", "the client may retry the request; fix the named cause"))
	// Fields: requestId, error, cause, and fields of the caller.
	logger.LogAttrs(r.Context(), slog.LevelError, "request failed", attrs...)
}

// SetRetryAfter sets the Retry-After header unless d is zero.
func SetRetryAfter(h http.Header, d time.Duration) {
	if d > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10))
	}
}

// WriteJSON writes v as indented JSON. It panics if v cannot be encoded.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic("stream: response cannot be encoded: " + err.Error())
	}
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // if the client is gone, the error is of no use
}
