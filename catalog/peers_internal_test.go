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

func (e *someFail) Retry(_ context.Context, _, sink string) error {
	e.asked = append(e.asked, sink)
	return e.failing[sink]
}

func (e *someFail) RetryFile(ctx context.Context, source, sink, _ string) error {
	return e.Retry(ctx, source, sink)
}

func (e *someFail) Discard(ctx context.Context, source, sink, _ string) error {
	return e.Retry(ctx, source, sink)
}

func (e *someFail) SplitFile(ctx context.Context, source, sink, _ string) error {
	return e.Retry(ctx, source, sink)
}

func (e *someFail) QuarantineFile(ctx context.Context, source, sink, _ string) error {
	return e.Retry(ctx, source, sink)
}

// A retry reaches the sinks behind one that fails, and the error names each that has failed.
func TestRetryGoesOnBehindAFailure(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	eng := &someFail{failing: map[string]error{"b": one, "c": forebay.ErrUnknownSink, "d": two}}
	sinks := []string{"a", "b", "c", "d", "e"}
	got, _, err := onEngine(t.Context(), eng, request{Op: opRetry, Source: "web", Sinks: sinks})
	if got != outcomeFailed || !errors.Is(err, one) || !errors.Is(err, two) || errors.Is(err, forebay.ErrUnknownSink) {
		t.Errorf("%s, %v", got, err)
	}
	if !slices.Equal(eng.asked, sinks) {
		t.Errorf("asked for %v", eng.asked)
	}
	if got, _, err := onEngine(t.Context(), eng, request{Op: opRetry, Source: "web", Sinks: []string{"c", "a"}}); got != outcomeDone || err != nil {
		t.Errorf("without a failure: %s, %v", got, err)
	}
}
