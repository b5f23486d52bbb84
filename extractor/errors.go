package extractor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong, or unused, in a configuration.
type Problem struct {
	// Path leads to the value, for example "parameters.api.pagination.limit" or "parameters.config.jobs[2].endpoint".
	Path string
	// Message describes the mistake and the expected content. It contains no value of the configuration that may be secret.
	Message string
}

func (p Problem) String() string { return p.Path + ": " + p.Message }

// A userError is one that the user of an extraction can correct.
type userError interface {
	error
	userError()
}

// ConfigError lists everything that is wrong with a configuration. Nothing was requested. The reaction is to correct
// the configuration.
type ConfigError struct {
	// Problems are in the order of the configuration.
	Problems []Problem
	// Warnings are the keys that are not known, as in [Config.Warnings]. A misspelled key may be the reason of a problem.
	Warnings []Problem
}

func (e *ConfigError) Error() string {
	var b strings.Builder
	b.WriteString("the configuration cannot be used:")
	sep := "\n  "
	if len(e.Problems)+len(e.Warnings) == 1 {
		sep = " "
	}
	for _, p := range slices.Concat(e.Problems, e.Warnings) {
		b.WriteString(sep + p.String())
	}
	return b.String()
}

func (*ConfigError) userError() {}

// RequestError is a request that failed after its retries, or whose response cannot be used. The
// reaction is to look at the API or at the configuration.
type RequestError struct {
	// Login is true for the request of the login.
	Login bool
	// Method and URL name the request. Values in the URL that are secret are left out.
	Method, URL string
	// Status is the HTTP status of the last response, 0 when there was none.
	Status int
	// Attempts is how often the request was sent.
	Attempts int
	// Body is the start of the last response without secrets. It is empty when the response may be a credential.
	Body string
	// Err is the cause when it is not the status.
	Err error
}

func (e *RequestError) Error() string {
	var b strings.Builder
	if e.Login {
		b.WriteString("login failed: ")
	}
	fmt.Fprintf(&b, "%s %s", e.Method, e.URL)
	if e.Status != 0 {
		fmt.Fprintf(&b, " returned %d", e.Status)
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (attempt %d)", e.Attempts)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Body != "" {
		fmt.Fprintf(&b, ": %s", e.Body)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *RequestError) Unwrap() error { return e.Err }

func (*RequestError) userError() {}

// ValueError is an expression that cannot be evaluated, or whose value has no place where it stands. The reaction is
// to correct the configuration.
type ValueError struct {
	// Path leads to the expression in the configuration.
	Path string
	// Err describes the fault without showing values.
	Err error
}

func (e *ValueError) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *ValueError) Unwrap() error { return e.Err }

func (*ValueError) userError() {}

// DataError is a response whose content does not fit the configuration or the tables. The reaction is to correct the
// configuration, or to look at the API.
type DataError struct {
	// Job is the id of the job, Endpoint its endpoint in the configuration without a password, Page the number of the page in it. They are empty and
	// 0 when tables are written at the end.
	Job, Endpoint string
	Page          int
	// Table is the table that cannot take the data, if it is about one.
	Table string
	// Err says why the data does not fit.
	Err error
}

func (e *DataError) Error() string {
	var where []string
	if e.Job != "" {
		where = append(where, fmt.Sprintf("job %q, page %d", e.Job, e.Page))
		if e.Endpoint != "" && e.Endpoint != e.Job {
			where = append(where, fmt.Sprintf("endpoint %q", e.Endpoint))
		}
	}
	if e.Table != "" {
		where = append(where, fmt.Sprintf("table %q", e.Table))
	}
	return fmt.Sprintf("%s: %v", strings.Join(where, ", "), e.Err)
}

// Unwrap returns the cause.
func (e *DataError) Unwrap() error { return e.Err }

func (*DataError) userError() {}

// ExitStatus returns the exit status of a program that ran an extraction: 0 for nil, 1 for an error that the user can
// correct (configuration, expressions, requests, data), 2 for any other.
func ExitStatus(err error) int {
	if err == nil {
		return 0
	}
	if _, user := errors.AsType[userError](err); user {
		return 1
	}
	return 2
}
