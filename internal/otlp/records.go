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

// Records makes records of documents, one after the other in rec, with the headers, address and time of request.
func Records(rec *mapping.Record, docs iter.Seq[mapping.FieldDocument], request mapping.Record) iter.Seq[*mapping.Record] {
	header, host, ip, received := request.Header, request.Host, request.ClientIP, request.Received
	return func(yield func(*mapping.Record) bool) {
		for doc := range docs {
			rec.Reset()
			rec.Document, rec.Header, rec.Host, rec.ClientIP, rec.Received = doc, header, host, ip, received
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

// Rejected is the count of a partial success: records that a sink can never store, or, where no sink takes the signal, all.
func Rejected(res forebay.BatchResult) int {
	if res.Sinks == 0 {
		return res.Records
	}
	return res.Rejected
}

// nouns are what the records of a signal are called in messages.
var nouns = map[forebay.Signal]string{
	forebay.SignalLogs: "log records", forebay.SignalMetrics: "data points", forebay.SignalTraces: "spans",
}

// ErrNoSource and ErrManySources are the errors of [SourceOf]. Senders get their texts.
var (
	ErrNoSource    = errors.New("no source has this secret: send it in the header authorization, after \"Bearer \"")
	ErrManySources = errors.New("several sources have this secret: give each its own")
)

// SourceOf returns the one source of telemetry among those that have a secret.
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

// Bearer returns the token of the values of an Authorization header, empty if it has none.
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

// PausedRetryAfter is when exporters are told to come again to a source that is disabled.
const PausedRetryAfter = 30 * time.Second

// NoProfiles is the answer to a signal that is not taken.
const NoProfiles = "Profiles are not taken, only logs, metrics and traces. Remove the exporter from the pipeline of profiles."

// The codes of gRPC that an answer can have.
const (
	CodeUnknown         = 2
	CodeInvalidArgument = 3
	CodeNotFound        = 5
	CodeUnimplemented   = 12
	CodeUnavailable     = 14
	CodeUnauthenticated = 16
)

// Code returns the code that stands for an HTTP status.
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
