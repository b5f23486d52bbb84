package stream

import (
	"encoding/json"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// apiError is an answer that is not a success. It is the only way in which a handler of this package reports one.
type apiError struct {
	// status is the HTTP status.
	status int
	// name is the machine-readable error of the body, for example "stream.in.bodyTooLarge".
	name string
	// message is for the client: full sentences, no internals, no secret.
	message string
	// retryAfter is the value of the Retry-After header, rounded up to seconds. Zero omits it.
	retryAfter time.Duration
	// unread tells that the rest of the body is not wanted, see leaveBody.
	unread bool
	// exceptionID is that of the platform behind the service. Empty: the service has its own for its own faults.
	exceptionID string
	// cause goes to the log only. It is set when the service is at fault.
	cause error
}

func (e *apiError) Error() string { return e.name + ": " + e.message }
func (e *apiError) Unwrap() error { return e.cause }

// errorBody is the body of every error.
type errorBody struct {
	StatusCode  int    `json:"statusCode" doc:"Status of the answer."`
	Error       string `json:"error" doc:"Name of the error, for programs."`
	Message     string `json:"message" doc:"Sentences for people."`
	ExceptionID string `json:"exceptionId,omitempty" doc:"What to tell to support; from status 500 on, or if the platform gave one."`
}

// exceptionPrefix and the request id make the exception id that a client quotes to support.
const exceptionPrefix = "stream-"

// Header values are shared by all answers: nothing writes into them.
var (
	anyValue       = []string{"*"}
	textType       = []string{"text/plain; charset=utf-8"}
	jsonType       = []string{"application/json"}
	ingestMethods  = []string{"OPTIONS, POST"}
	okLength       = []string{"2"}
	noSinkWarning  = []string{"no enabled sink, the event was dropped"}
	requestIDField = http.CanonicalHeaderKey("X-Request-Id")
)

// warningField of an answer tells what is wrong though the request was taken.
const warningField = "X-Stream-Warning"

// setCommonHeaders gives an answer its request id and lets pages of every origin read it. It returns the id.
func setCommonHeaders(h http.Header) string {
	id := newRequestID()
	h[requestIDField] = []string{id}
	h["Access-Control-Allow-Origin"] = anyValue
	h["Access-Control-Expose-Headers"] = anyValue
	return id
}

// newRequestID returns 15 random alphanumerics.
func newRequestID() string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	var id [15]byte
	var random uint64
	for i := range id {
		if i%8 == 0 { // 36^8 fits in 64 bits
			random = rand.Uint64()
		}
		id[i] = digits[random%36]
		random /= 36
	}
	return string(id[:])
}

// writeError answers a request with e, and logs e if the service is at fault.
func writeError(w http.ResponseWriter, r *http.Request, logger *slog.Logger, requestID string, e *apiError) {
	body := errorBody{StatusCode: e.status, Error: e.name, Message: e.message, ExceptionID: e.exceptionID}
	if body.ExceptionID == "" && e.status >= http.StatusInternalServerError {
		body.ExceptionID = exceptionPrefix + requestID
	}
	logFault(r, logger, requestID, e)
	setRetryAfter(w.Header(), e.retryAfter)
	writeJSON(w, e.status, body)
}

// leaveBody announces that the connection is closed after the answer if r has a body. It is called before an answer that
// does not need the (rest of the) body: net/http would else wait for it, up to the ReadTimeout, before it sends the
// answer. Over HTTP/2 the stream alone ends.
func leaveBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
}

// logFault logs e if it has a cause. The URL of an ingestion request holds the secret: it is never logged.
func logFault(r *http.Request, logger *slog.Logger, requestID string, e *apiError, attrs ...slog.Attr) {
	if e.cause == nil {
		return
	}
	attrs = append(attrs, slog.String("requestId", requestID), slog.String("error", e.name), slog.Any("cause", e.cause))
	logger.LogAttrs(r.Context(), slog.LevelError, "request failed", attrs...)
}

func setRetryAfter(h http.Header, d time.Duration) {
	if d > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10))
	}
}

// writeOK writes the answer to events that every sink has.
func writeOK(w http.ResponseWriter, status int) {
	header := w.Header()
	header["Content-Type"] = textType
	header["Content-Length"] = okLength
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "OK") // the client may be gone: it has nobody else to tell
}

// writeJSON writes v as indented JSON. v must be encodable.
func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic("stream: answer cannot be encoded: " + err.Error())
	}
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the client may be gone: it has nobody else to tell
}
