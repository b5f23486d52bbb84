package otlp

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// Records yields one record for each document, always in rec, with the headers, address and time of request.
func Records(rec *mapping.Record, docs iter.Seq[mapping.FieldDocument], request mapping.Record) iter.Seq[*mapping.Record] {
	header, host, line, ip, received := request.Header, request.Host, request.Request, request.ClientIP, request.Received
	return func(yield func(*mapping.Record) bool) {
		for doc := range docs {
			rec.Reset()
			rec.Document, rec.Header, rec.Host, rec.Request, rec.ClientIP, rec.Received = doc, header, host, line, ip, received
			if !yield(rec) {
				return
			}
		}
	}
}

// Summary is the text of a partial success, empty for a full one.
func Summary(signal forebay.Signal, res forebay.BatchResult) string {
	noun := nouns[signal]
	switch {
	case res.Rejected > 0:
		return fmt.Sprintf("%d of %d %s were rejected, the first is number %d, by sink %q: %v",
			res.Rejected, res.Records, noun, res.FirstRecord+1, res.First.Sink, res.First.Err)
	case res.Sinks == 0 && res.Records > 0:
		return fmt.Sprintf("No enabled sink of the source takes %s: %d %s were dropped.", signal, res.Records, noun)
	}
	return ""
}

// Rejected is the count of a partial success, that is, the records that some sink can never store, or all of them if no sink takes
// the signal.
func Rejected(res forebay.BatchResult) int {
	if res.Sinks == 0 {
		return res.Records
	}
	return res.Rejected
}

// nouns name the records of a signal in messages.
var nouns = map[forebay.Signal]string{
	forebay.SignalLogs: "log records", forebay.SignalMetrics: "data points", forebay.SignalTraces: "spans",
}

// ErrNoSource and ErrManySources are the errors of [SourceOf]. Senders see their texts.
var (
	ErrNoSource    = errors.New("no source has this secret: send it in the header authorization, after \"Bearer \"")
	ErrManySources = errors.New("several sources have this secret: give each its own")
)

// SourceOf returns the only telemetry source among the sources of a secret.
func SourceOf(sources []forebay.Source) (found forebay.Source, err error) {
	err = ErrNoSource
	for _, src := range sources {
		if src.Type != forebay.OTLP {
			continue
		}
		if err == nil {
			return forebay.Source{}, ErrManySources
		}
		found, err = src, nil
	}
	return found, err
}

// Bearer returns the token of an Authorization header, empty if there is none.
func Bearer(values []string) string {
	if len(values) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// PausedRetryAfter is when exporters should retry at a disabled source.
const PausedRetryAfter = 30 * time.Second

// NoProfiles is the response to the unsupported signal.
const NoProfiles = "Profiles are not taken, only logs, metrics and traces. Remove the exporter from the pipeline of profiles."

// The gRPC codes of responses.
const (
	CodeUnknown         = 2
	CodeInvalidArgument = 3
	CodeNotFound        = 5
	CodeUnimplemented   = 12
	CodeUnavailable     = 14
	CodeUnauthenticated = 16
)

// Code returns the gRPC code for an HTTP status.
func Code(status int) uint32 {
	switch {
	case status == http.StatusUnauthorized:
		return CodeUnauthenticated
	case status == http.StatusNotFound:
		return CodeNotFound
	case status == http.StatusMethodNotAllowed:
		return CodeUnimplemented
	case status >= 500:
		return CodeUnavailable
	case status >= 400:
		return CodeInvalidArgument
	}
	return CodeUnknown
}
