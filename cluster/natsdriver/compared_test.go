package natsdriver

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// A change that was refused without being compared is made again, for a while, and any other outcome stands.
func TestChangeBesideOneUnderWay(t *testing.T) {
	pending := fmt.Errorf("refused: %w", &jetstream.APIError{Code: 400, ErrorCode: jetstream.JSErrCodeStreamWrongLastSequenceConstant})
	lost := &jetstream.APIError{Code: 400, ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence}
	for what, tc := range map[string]struct {
		results []error // the last one is given again and again
		want    error
		least   int
	}{
		"at once":          {[]error{nil}, nil, 1},
		"lost":             {[]error{lost}, lost, 1},
		"then made":        {[]error{pending, pending, nil}, nil, 3},
		"then lost":        {[]error{pending, lost}, lost, 2},
		"always under way": {[]error{pending}, pending, 5},
	} {
		calls := 0
		err := compared(t.Context(), func() error {
			result := tc.results[min(calls, len(tc.results)-1)]
			calls++
			return result
		})
		if !errors.Is(err, tc.want) || calls < tc.least || tc.least < 5 && calls > tc.least || calls > 20 {
			t.Errorf("%s: got %v after %d calls, want %v", what, err, calls, tc.want)
		}
	}
}
