package storageapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Error is a response of the server that is not a success.
type Error struct {
	// Method and Path say which call was refused. The path has no query and no host.
	Method, Path string
	// Status is the HTTP status.
	Status int
	// Code is the platform's code, such as "storage.buckets.notFound". It may be empty.
	Code string
	// Message is the text for people, or the status text when the body had none.
	Message string
	// ExceptionID identifies the failure for support. It may be empty.
	ExceptionID string
	// Violations are the single fields that were refused, if the server names them.
	Violations []Violation
	// RetryAfter is the delay that the server asks for, 0 if it does not.
	RetryAfter time.Duration
}

// Violation is one refused field or parameter.
type Violation struct {
	// Key is the field or parameter.
	Key string `json:"key"`
	// Message describes the fault.
	Message string `json:"message"`
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "storage api: %s %s: %d", e.Method, e.Path, e.Status)
	if e.Code != "" {
		fmt.Fprintf(&b, " (%s)", e.Code)
	}
	fmt.Fprintf(&b, ": %s", e.Message)
	if e.ExceptionID != "" {
		fmt.Fprintf(&b, " [exception %s]", e.ExceptionID)
	}
	return b.String()
}

// IsNotFound reports whether err is a response that the object does not exist.
func IsNotFound(err error) bool { return hasStatus(err, http.StatusNotFound) }

// IsAlreadyExists reports whether err is a response, or the end of a job, that says that the chosen id or name is taken.
func IsAlreadyExists(err error) bool {
	var e *Error
	return (!errors.As(err, &e) || e.Status == http.StatusBadRequest) && hasSuffixFold(errorCode(err), "AlreadyExists")
}

// IsUnauthorized reports whether err is a response that the token is missing, unknown, expired, or of another stack.
func IsUnauthorized(err error) bool { return hasStatus(err, http.StatusUnauthorized) }

// HasCode reports whether err is a response, or the end of a job, with the platform's code, without regard to case.
func HasCode(err error, code string) bool {
	return code != "" && strings.EqualFold(errorCode(err), code)
}

func hasStatus(err error, status int) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == status
}

// errorCode is the platform's code of a response or of the end of a job, or "". Codes are compared without regard to case, because
// the platform is not consistent.
func errorCode(err error) string {
	var e *Error
	var failed *JobError
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.As(err, &failed):
		return failed.Code()
	}
	return ""
}

func hasSuffixFold(s, suffix string) bool {
	return len(s) >= len(suffix) && strings.EqualFold(s[len(s)-len(suffix):], suffix)
}

// ErrorBody is the body of an error response of the Storage API. Code is a string there, and a number (the status) in the
// queue.
type ErrorBody struct {
	// Error is the text for people.
	Error string `json:"error"`
	// Code is the platform's code.
	Code json.RawMessage `json:"code,omitempty"`
	// ExceptionID identifies the failure for support.
	ExceptionID string `json:"exceptionId,omitempty"`
	// Status is "error", or "maintenance".
	Status string `json:"status,omitempty"`
	// Reason is given instead of Error during maintenance.
	Reason string `json:"reason,omitempty"`
	// Errors are the refused fields.
	Errors []Violation `json:"errors,omitempty"`
}

// newError reads the body of a response that is not a success. It ignores a body of another form, which may come from a proxy.
func newError(method, path string, resp *http.Response, body []byte) *Error {
	e := &Error{
		Method: method, Path: path, Status: resp.StatusCode,
		RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now()),
	}
	var parsed ErrorBody
	if json.Unmarshal(body, &parsed) == nil {
		e.Message, e.ExceptionID, e.Violations = cmp.Or(parsed.Error, parsed.Reason), parsed.ExceptionID, parsed.Errors
		// A code that is a number repeats the status.
		_ = json.Unmarshal(parsed.Code, &e.Code)
	}
	e.Message = cmp.Or(e.Message, http.StatusText(resp.StatusCode))
	return e
}

// retryAfter reads the header of that name, which is seconds, or a date.
func retryAfter(header string, now time.Time) time.Duration {
	if header == "" {
		return 0
	}
	if seconds, err := strconv.Atoi(header); err == nil {
		return min(time.Duration(max(seconds, 0))*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// maxRetryAfter bounds the delay that a server can ask for.
const maxRetryAfter = 24 * time.Hour
