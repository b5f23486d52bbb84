package forebay

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

var (
	// ErrClosed is returned by every call after Close has begun.
	ErrClosed = buffer.ErrClosed
	// ErrUnknownSource is returned for a source id that is not defined.
	ErrUnknownSource = errors.New("unknown source")
	// ErrUnknownSink is returned for a sink id that the source does not have.
	ErrUnknownSink = errors.New("unknown sink")
	// ErrDisabledSource is returned for a record to a disabled source. Nothing was stored.
	ErrDisabledSource = errors.New("source is disabled")
	// ErrTooManySources is returned by Define above Options.MaxSources.
	ErrTooManySources = errors.New("the engine has too many sources")
)

func unknownSource(id string) error {
	return fmt.Errorf("%w: %q: define it first, or correct the id", ErrUnknownSource, id)
}

func unknownSink(source, id string) error {
	return fmt.Errorf("%w: %q of source %q: it is not defined, or it is disabled; change the definition, or correct the id", ErrUnknownSink, id, source)
}

// RowTooLargeError rejects a record whose row is above Options.MaxRowBytes.
type RowTooLargeError = mapping.RowTooLargeError

// BatchError says which records of a batch were not taken and why, each cause once. [errors.As] finds the [*SinkError] of each
// cause.
type BatchError struct {
	// Records is the number of records that at least one sink did not take.
	Records int
	// Causes are in the order of their first record.
	Causes []BatchCause
}

// BatchCause is one reason why records of a batch were not taken.
type BatchCause struct {
	// Err is the error of the first of the records.
	Err *SinkError
	// Records are the indices of the records in the batch, ascending.
	Records []int
}

// maxCauses bounds the causes in the text of a BatchError.
const maxCauses = 5

func (e *BatchError) Error() string {
	var b strings.Builder
	for i, c := range e.Causes {
		if i == maxCauses {
			fmt.Fprintf(&b, "; and %d more causes", len(e.Causes)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %v", places(c.Records), c.Err)
	}
	return b.String()
}

// Unwrap returns the error of each cause.
func (e *BatchError) Unwrap() []error {
	list := make([]error, len(e.Causes))
	for i, c := range e.Causes {
		list[i] = c.Err
	}
	return list
}

// maxPlaces bounds the runs of indices in a text.
const maxPlaces = 10

// places abbreviates ascending numbers: "records 0-4, 7 and 12 more".
func places(list []int) string {
	var b strings.Builder
	b.WriteString("record ")
	if len(list) > 1 {
		b.Reset()
		b.WriteString("records ")
	}
	for i, runs := 0, 0; i < len(list); runs++ {
		if runs == maxPlaces {
			fmt.Fprintf(&b, " and %d more", len(list)-i)
			break
		}
		end := i
		for end+1 < len(list) && list[end+1] == list[end]+1 {
			end++
		}
		if runs > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, list[i])
		if end > i {
			fmt.Fprintf(&b, "-%d", list[end])
		}
		i = end + 1
	}
	return b.String()
}

// batchError collects the failures of all records, or returns nil when every sink kept every record.
func batchError(source string, results []Result) error {
	type cause struct {
		sink   string
		status Status
		text   string
	}
	var (
		e     BatchError
		known = map[cause]int{} // places in e.Causes
		last  error             // thousands of records in a row often share one
		text  string
	)
	for i := range results {
		failed := false
		for _, s := range results[i].Sinks {
			if !s.lost() {
				continue
			}
			failed = true
			if !same(last, s.Err) {
				last, text = s.Err, s.Err.Error()
			}
			c := cause{s.Sink, s.Status, text}
			at, ok := known[c]
			if !ok {
				at = len(e.Causes)
				known[c] = at
				e.Causes = append(e.Causes, BatchCause{Err: &SinkError{Source: source, Sink: s.Sink, Status: s.Status, Err: s.Err}})
			}
			e.Causes[at].Records = append(e.Causes[at].Records, i)
		}
		if failed {
			e.Records++
		}
	}
	if e.Records == 0 {
		return nil
	}
	return &e
}

// same reports whether two errors are identical. Errors that cannot be compared are not.
func same(x, y error) bool {
	return x != nil && y != nil && reflect.TypeOf(x).Comparable() && reflect.TypeOf(y).Comparable() && x == y
}
