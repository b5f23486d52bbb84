// Package refusal writes errors over HTTP in the shape of the Stream API's errors, for the addresses that package stream does not serve.
//
//	refusal.New(http.StatusForbidden, "forbidden", "This page needs a token.").Write(w)
package refusal

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Error is a response that is not a success, and its body.
type Error struct {
	// Status is the status of the response.
	Status int `json:"statusCode"`
	// Name is for programs. Message is for people. It describes the problem and what to do, and has no secret.
	Name    string `json:"error"`
	Message string `json:"message"`
}

// New returns an error.
func New(status int, name, message string) Error { return Error{status, name, message} }

// Write responds with e.
func (e Error) Write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(e) // the client may be gone
}

// Methods returns the methods that mux has a pattern for at the path of r, apart from the pattern "/". HEAD is not among them, because it is allowed
// where GET is.
func Methods(mux *http.ServeMux, r *http.Request) (allowed []string) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := mux.Handler(other); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	return allowed
}

// WrongMethod sets the header Allow and returns the message of a 405.
func WrongMethod(w http.ResponseWriter, r *http.Request, allowed ...string) (message string) {
	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	return fmt.Sprintf("%.100q does not allow %.20s. Use %s.", r.URL.Path, r.Method, list)
}

// Rest makes mux refuse requests that match no other pattern, with 405 or 404. has completes the message "This address has …".
func Rest(mux *http.ServeMux, has string) {
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if allowed := Methods(mux, r); len(allowed) > 0 {
			New(http.StatusMethodNotAllowed, "methodNotAllowed", WrongMethod(w, r, allowed...)).Write(w)
			return
		}
		New(http.StatusNotFound, "notFound", fmt.Sprintf("%.100q not found. This address has %s.", r.URL.Path, has)).Write(w)
	})
}
