package catalog

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/forebay/forebay"
)

// someFail is an engine of which some sinks fail, and some are unknown.
type someFail struct {
	failing map[string]error
	asked   []string
}

// failingSink is a sink of someFail.
type failingSink struct {
	eng *someFail
	id  string
}

func (e *someFail) sink(id string) waitingFiles { return failingSink{e, id} }

func (s failingSink) Retry(context.Context) error {
	s.eng.asked = append(s.eng.asked, s.id)
	return s.eng.failing[s.id]
}

func (s failingSink) RetryFile(ctx context.Context, _ string) error      { return s.Retry(ctx) }
func (s failingSink) Discard(ctx context.Context, _ string) error        { return s.Retry(ctx) }
func (s failingSink) SplitFile(ctx context.Context, _ string) error      { return s.Retry(ctx) }
func (s failingSink) QuarantineFile(ctx context.Context, _ string) error { return s.Retry(ctx) }

// A request that this release does not know changes nothing, and is not taken for a retry.
func TestUnknownRequestFails(t *testing.T) {
	eng := &someFail{}
	got, _, err := onSinks(t.Context(), eng.sink, request{Op: "compact", Source: "web", Sinks: []string{"a"}})
	if want := `sink a: the request "compact" is not known`; got != outcomeFailed || err == nil || err.Error() != want {
		t.Errorf("got %s, %v, want %s, %s", got, err, outcomeFailed, want)
	}
	if len(eng.asked) > 0 {
		t.Errorf("got calls of the sinks %v, want none", eng.asked)
	}
}

// A retry reaches the sinks after one that fails, and the error names each that has failed.
func TestRetryReachesSinksAfterAFailure(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	eng := &someFail{failing: map[string]error{"b": one, "c": forebay.ErrUnknownSink, "d": two}}
	sinks := []string{"a", "b", "c", "d", "e"}
	got, _, err := onSinks(t.Context(), eng.sink, request{Op: opRetry, Source: "web", Sinks: sinks})
	if got != outcomeFailed || !errors.Is(err, one) || !errors.Is(err, two) || errors.Is(err, forebay.ErrUnknownSink) {
		t.Errorf("got %s, %v, want %s, the errors of b and d", got, err, outcomeFailed)
	}
	if !slices.Equal(eng.asked, sinks) {
		t.Errorf("asked for %v", eng.asked)
	}
	if got, _, err := onSinks(t.Context(), eng.sink, request{Op: opRetry, Source: "web", Sinks: []string{"c", "a"}}); got != outcomeDone || err != nil {
		t.Errorf("without a failure: %s, %v", got, err)
	}
}
