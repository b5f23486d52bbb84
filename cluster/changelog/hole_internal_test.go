package changelog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"testing"
)

// electing is a log of which each replica in turn leads. An empty name is a replica that cannot be asked.
type electing struct {
	Log
	others []string
}

func (e electing) Leaders(_ context.Context, _ string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, name := range e.others {
			var err error
			if name == "" {
				err = errAway
			}
			if !yield(name, err) {
				return
			}
		}
	}
}

var errAway = errors.New("its server is away")

// A hole is one only if all replicas have been read. A leader that does not respond is like a replica that cannot be asked, and the replicas after
// it are asked all the same.
func TestWithAnyLeader(t *testing.T) {
	silent := fmt.Errorf("read: %w", context.DeadlineExceeded)
	for _, test := range []struct {
		name   string
		others []string
		reads  []error // of the leader at first, then of the others that can be asked
		want   []error // which the error is. None means nil
	}{
		{"no hole", []string{"b", "c"}, []error{nil}, nil},
		{"the first replica is silent", []string{"b", "c"}, []error{silent}, []error{silent}},
		{"another one has it", []string{"b", "c"}, []error{ErrHole, nil}, nil},
		{"none has it", []string{"b", "c"}, []error{ErrHole, ErrHole, ErrHole}, []error{ErrHole}},
		{"one is away", []string{"b", ""}, []error{ErrHole, ErrHole}, []error{ErrUnasked, errAway}},
		{"one does not answer", []string{"b", "c"}, []error{ErrHole, silent, ErrHole}, []error{ErrUnasked, context.DeadlineExceeded}},
		{"one does not answer, the next has it", []string{"b", "c"}, []error{ErrHole, silent, nil}, nil},
		{"another one says more", []string{"b", "c"}, []error{ErrHole, ErrFenced}, []error{ErrFenced}},
	} {
		t.Run(test.name, func(t *testing.T) {
			reads := slices.Clone(test.reads)
			err := withAnyLeader(t.Context(), electing{others: test.others}, "instance", slog.New(slog.DiscardHandler), func() error {
				next := reads[0]
				reads = reads[1:]
				return next
			})
			if (err == nil) != (test.want == nil) {
				t.Errorf("the error is %v", err)
			}
			for _, want := range test.want {
				if !errors.Is(err, want) {
					t.Errorf("the error is %v, want %v", err, want)
				}
			}
			if errors.Is(err, ErrUnasked) && errors.Is(err, ErrHole) {
				t.Errorf("%v is a hole, and not all were asked", err)
			}
			if len(reads) > 0 {
				t.Errorf("%d replicas were not asked", len(reads))
			}
		})
	}
}

// No other replica is asked when the caller has no more time.
func TestWithAnyLeaderEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := ErrHole
	got := withAnyLeader(ctx, electing{others: []string{"b", "c"}}, "instance", slog.New(slog.DiscardHandler), func() error {
		defer func() {
			cancel()
			err = context.DeadlineExceeded
		}()
		return err
	})
	if !errors.Is(got, context.DeadlineExceeded) || errors.Is(got, ErrUnasked) {
		t.Errorf("the error is %v", got)
	}
}
