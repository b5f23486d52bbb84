package natsdriver

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestValidate(t *testing.T) {
	if err := (Options{}).Validate(); err != nil {
		t.Errorf("the zero value = %v, want that it is valid", err)
	}
	err := Options{Cluster: "a_b", Replicas: 2, MaxBytes: 1000, AppendTimeout: -1, Timeout: time.Nanosecond}.Validate()
	for _, want := range []string{`"a_b"`, "Replicas is 2", "MaxBytes is 1000", "AppendTimeout is -1ns", "Timeout 1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want that it names %s", err, want)
		}
	}
	if _, err := NewLog(nil, Options{Replicas: 2}); err == nil {
		t.Error("NewLog takes 2 replicas")
	}
	if _, err := NewOwners(nil, Options{Replicas: 2}); err == nil {
		t.Error("NewOwners takes 2 replicas")
	}
}

// Instances are part of subjects, in which some characters mean something.
func TestInstanceNames(t *testing.T) {
	l := newLog(t, 0, Options{})
	for _, instance := range []string{"", "a.b", "a b", "*", ">", "ä", "a/b", strings.Repeat("a", 129)} {
		_, open := l.Open(t.Context(), instance, marker(1, "node-1"))
		_, stat := l.Stat(t.Context(), instance)
		for _, err := range []error{l.Create(t.Context(), instance), open, stat, l.Trim(t.Context(), instance, 1), l.Delete(t.Context(), instance)} {
			if err == nil || !strings.Contains(err.Error(), "must have 1 to 128") {
				t.Errorf("the instance %q = %v, want that it is refused", instance, err)
			}
		}
	}
}

// A stream that another version made, with another window, has writers that the gap of this version does not fence.
func TestStreamOfAnotherVersionIsRefused(t *testing.T) {
	l, s, _ := rawStream(t)
	config := s.CachedInfo().Config
	config.Metadata[metaWindow] = "16"
	if _, err := l.js.UpdateStream(within(t), config); err != nil {
		t.Fatal(err)
	}
	_, open := l.Open(t.Context(), t.Name(), marker(1, "node-1"))
	for _, err := range []error{open, l.Create(t.Context(), t.Name())} {
		if err == nil || !strings.Contains(err.Error(), `the window "16" instead of 1 and 8`) {
			t.Errorf("a stream with another window = %v, want that it is refused", err)
		}
	}
}

// A purge beyond the end would move the end, and with it all positions.
func TestTrimBeyondTheEndIsRefused(t *testing.T) {
	l := newLog(t, 0, Options{})
	instance := created(t, l)
	end := open(t, l, instance, 1).Marker()
	if err := l.Trim(t.Context(), instance, end+1); err == nil {
		t.Errorf("Trim of %d behind the end at %d is taken", end+1, end)
	}
	if s, err := l.Stat(t.Context(), instance); err != nil || s.Last != end || s.First != 1 {
		t.Errorf("Stat = %+v, %v, want 1 to %d", s, err, end)
	}
}

// An owner may return again and again while no node can trim. When the room for markers is used up, an operator raises the bound.
func TestFullStreamWithoutRoomForMarkers(t *testing.T) {
	l := newLog(t, 0, Options{MaxBytes: minBytes})
	instance := created(t, l)
	s, info, err := l.stream(t.Context(), instance)
	if err != nil {
		t.Fatal(err)
	}
	bounded := func(bytes int64) {
		t.Helper()
		info.Config.MaxBytes = bytes
		if _, err := l.js.UpdateStream(within(t), info.Config); err != nil {
			t.Fatal(err)
		}
	}
	info.Config.Metadata[metaBound] = "65536"
	bounded(64 << 10)
	epoch := uint64(0)
	for err := error(nil); !errors.Is(err, changelog.ErrFull); {
		epoch++
		if _, err = l.appendGap(within(t), owner{epoch, "node-1"}.subject(info), 0, marker(epoch, strings.Repeat("n", 128))); err != nil {
			err = failure(err, func() bool { return l.full(within(t), s) })
		}
	}
	bounded(2 * markerBytes) // above the limit in the metadata
	if _, err := open(t, l, instance, epoch).Append(batch(epoch, 1, "x")).Wait(within(t)); err != nil {
		t.Errorf("an append after the bound was raised = %v", err)
	}
}

func TestBucketThatIsMissing(t *testing.T) {
	o := newOwners(t, 0, Options{Cluster: "none"})
	_, get := o.Get(t.Context(), "i.a")
	_, set := o.CompareAndSet(t.Context(), "i.a", 0, nil)
	for _, err := range []error{get, set} {
		if !errors.Is(err, changelog.ErrMissing) {
			t.Errorf("without a bucket = %v, want changelog.ErrMissing", err)
		}
	}
	for _, err := range o.Watch(t.Context(), "i.") {
		if !errors.Is(err, changelog.ErrMissing) {
			t.Errorf("Watch without a bucket = %v, want changelog.ErrMissing", err)
		}
	}
}

// What a server or the client says becomes the error that says what to do.
func TestReactions(t *testing.T) {
	answer := func(status int, code jetstream.ErrorCode) error {
		return &jetstream.APIError{Code: status, ErrorCode: code}
	}
	for _, c := range []struct {
		err     error
		refused bool // so that it is not repeated
		becomes error
	}{
		{answer(400, 10071), true, changelog.ErrUnknown},
		{answer(400, 10164), true, changelog.ErrUnknown},
		{answer(503, codeStore), true, changelog.ErrFull},
		{answer(400, codePartial), false, changelog.ErrUnknown},
		{answer(400, codeNoPlace), false, changelog.ErrUnknown},
		{answer(429, 10167), false, changelog.ErrUnknown},
		{answer(503, 10008), false, changelog.ErrUnknown},
		{answer(404, 10059), true, changelog.ErrUnknown},
		{jetstream.ErrNoStreamResponse, false, changelog.ErrUnknown},
		{jetstream.ErrAsyncPublishTimeout, false, changelog.ErrUnknown},
		{nats.ErrDisconnected, false, changelog.ErrUnknown},
		{nats.ErrConnectionClosed, true, changelog.ErrUnknown},
		{changelog.ErrFenced, false, changelog.ErrFenced},
	} {
		if refused(c.err) != c.refused {
			t.Errorf("refused(%v) = %t", c.err, !c.refused)
		}
		if got := failure(c.err, func() bool { return true }); !errors.Is(got, c.becomes) || !errors.Is(got, c.err) {
			t.Errorf("failure(%v) = %v, want that it wraps %v", c.err, got, c.becomes)
		}
	}
	if got := failure(answer(503, codeStore), func() bool { return false }); !errors.Is(got, changelog.ErrUnknown) {
		t.Errorf("failure of a store that is not full = %v, want changelog.ErrUnknown", got)
	}
}
