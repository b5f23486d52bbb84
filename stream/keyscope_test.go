package stream_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

const newSecret = "another-horse-battery-staple"

// scopeSource keeps what sink a cannot map in its quarantine.
func scopeSource(split forebay.Split) forebay.Source {
	return forebay.Source{ID: "shop", Secret: webSecret, Split: split, Sinks: []forebay.Sink{
		{ID: "a", OnReject: forebay.Quarantine, Table: forebay.Table{ID: "in.c-shop.a", Columns: mapping.Columns{mapping.Path("n", "n")}}},
		{ID: "b", Table: forebay.Table{ID: "in.c-shop.b", Columns: mapping.Columns{mapping.Body("body")}}},
	}}
}

// keyed is the number of rows of the sinks of scopeSource, and of the records in the quarantine.
func (s *service) keyed() string {
	s.t.Helper()
	a, b := s.count("shop", "a"), s.count("shop", "b")
	for _, st := range s.eng.Stats().Sinks {
		if st.Source == "shop" && st.Sink == "a" {
			return fmt.Sprintf("a %d, b %d, quarantine %d", a, b, st.Quarantine.Records)
		}
	}
	return "no sink a"
}

// A request that is sent again with its key is the same request, even if a user has changed the source meanwhile, or a client or a proxy has changed
// the request outside of its content.
func TestKeyOutlivesChangesOfTheSource(t *testing.T) {
	type request struct {
		path, body string
		header     []string
	}
	const body = `[{"n":1},{"x":2},{"n":3}]`
	for name, change := range map[string]func(src *forebay.Source, r *request){
		"nothing": func(*forebay.Source, *request) {},
		"secret":  func(src *forebay.Source, r *request) { src.Secret, r.path = newSecret, "/stream/1/shop/"+newSecret },
		"secret, with overlap": func(src *forebay.Source, r *request) {
			src.Secret, src.OldSecret, src.OldSecretUntil = newSecret, webSecret, time.Now().Add(time.Hour)
		},
		"split to none":  func(src *forebay.Source, _ *request) { src.Split = forebay.SplitNone },
		"split to array": func(src *forebay.Source, _ *request) { src.Split = forebay.SplitArray },
		"split to lines": func(src *forebay.Source, _ *request) { src.Split = forebay.SplitLines },
		"secret and split": func(src *forebay.Source, r *request) {
			src.Secret, src.Split, r.path = newSecret, forebay.SplitLines, "/stream/1/shop/"+newSecret
		},
		"columns": func(src *forebay.Source, _ *request) {
			src.Sinks[0].Table.Columns = mapping.Columns{mapping.Path("n", "x")}
		},
		"order of sinks": func(src *forebay.Source, _ *request) {
			slices.Reverse(src.Sinks)
		},
		"table":       func(src *forebay.Source, _ *request) { src.Sinks[1].Table.ID = "in.c-shop.other" },
		"query":       func(_ *forebay.Source, r *request) { r.path += "?attempt=2" },
		"compression": func(_ *forebay.Source, r *request) { r.header = append(r.header, "Content-Encoding", "gzip") },
		"other header": func(_ *forebay.Source, r *request) {
			r.header = append(r.header, "Traceparent", "00-2", "User-Agent", "x")
		},
		"content type": func(_ *forebay.Source, r *request) { r.header = append(r.header, "Content-Type", "text/plain") },
	} {
		for _, split := range []forebay.Split{forebay.SplitNone, forebay.SplitArray, forebay.SplitLines} {
			src := scopeSource(split)
			s := newService(t, nil, src)
			send := func(r request) (int, string, string) {
				coding := ""
				if slices.Contains(r.header, "gzip") {
					coding = "gzip"
				}
				status, header, answer := s.export(r.path, compress(t, coding, []byte(r.body)), append([]string{"Idempotency-Key", "k"}, r.header...)...)
				return status, header.Get("Idempotent-Replayed"), answer
			}
			r := request{"/stream/1/shop/" + webSecret, body, []string{"Content-Type", jsonBody}}
			if status, _, answer := send(r); status != 200 {
				t.Fatalf("%s, split %q: status %d: %s, want 200", name, split, status, answer)
			}
			want := s.keyed()
			change(&src, &r)
			if err := s.eng.Define(t.Context(), src); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if status, again, answer := send(r); status != 200 || again != "true" {
					t.Errorf("got %s, split %q: status %d, replayed %q, want 200 and true: %s", name, split, status, again, answer)
				}
			}
			if got := s.keyed(); got != want {
				t.Errorf("%s, split %q: got %s after the repetition, want %s", name, split, got, want)
			}
			r.body = `[{"n":7}]`
			if status, _, answer := send(r); status != 422 {
				t.Errorf("%s, split %q: status %d of another body under the key, want 422: %s", name, split, status, answer)
			}
		}
	}
}

// A text is stored as one event. It is not JSON, so the source could not split it now. The repetition of the request is still known, and a new
// request is refused.
func TestKeyOfABodyThatCannotBeSplitAnyMore(t *testing.T) {
	src := scopeSource(forebay.SplitNone)
	s := newService(t, nil, src)
	send := func(key string) int {
		status, _, _ := s.export("/stream/1/shop/"+webSecret, []byte("a text"), "Idempotency-Key", key)
		return status
	}
	if status := send("k"); status != 200 {
		t.Fatalf("status %d, want 200", status)
	}
	src.Split = forebay.SplitArray
	if err := s.eng.Define(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	want := s.keyed()
	if known, other := send("k"), send("other"); known != 200 || other != 422 {
		t.Errorf("status %d of the repetition, %d of a new request, want 200 and 422", known, other)
	}
	if got := s.keyed(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The same at another node of a cluster, which has no receipt. While it is not known what the first node has stored, the request is refused for now.
func TestKeyOfABodyThatAnotherNodeCannotSplit(t *testing.T) {
	src := scopeSource(forebay.SplitNone)
	first := newService(t, nil, src)
	var unclear atomic.Bool
	src.Split = forebay.SplitArray
	second := newService(t, func(o *forebay.Options) {
		o.KnownElsewhere = func(_ context.Context, key buffer.Key) ([]buffer.Receipt, error) {
			list, _, err := first.eng.Buffer().Known(key)
			if unclear.Load() {
				err = forebay.ErrKeyUnclear
			}
			return list, err
		}
	}, src)
	send := func(s *service, key string) (int, string) {
		status, header, _ := s.export("/stream/1/shop/"+webSecret, []byte("a text"), "Idempotency-Key", key)
		return status, header.Get("Idempotent-Replayed")
	}
	if status, _ := send(first, "k"); status != 200 {
		t.Fatalf("the first node: status %d, want 200", status)
	}
	if status, again := send(second, "k"); status != 200 || again != "true" {
		t.Errorf("the second node: status %d of the repetition, replayed %q, want 200 and true", status, again)
	}
	if status, _ := send(second, "other"); status != 422 {
		t.Errorf("the second node: status %d of a new request, want 422", status)
	}
	unclear.Store(true)
	for _, key := range []string{"k", "other"} {
		if status, _ := send(second, key); status != 503 {
			t.Errorf("the second node, while the first one does not respond: status %d with key %q, want 503", status, key)
		}
	}
	if got, want := second.keyed(), "a 0, b 0, quarantine 0"; got != want {
		t.Errorf("the second node has %s, want %s", got, want)
	}
}

// A sink that failed gets its missing events, under the places that they had in the first request.
func TestKeyAddsWhatIsMissingAsFirstSplit(t *testing.T) {
	src := scopeSource(forebay.SplitArray)
	src.Sinks[1].Disabled = true
	s := newService(t, nil, src)
	send := func() {
		t.Helper()
		if status, _, answer := s.export("/stream/1/shop/"+webSecret, []byte(`[{"n":1},{"n":2}]`), "Content-Type", jsonBody, "Idempotency-Key", "k"); status != 200 {
			t.Fatalf("status %d: %s", status, answer)
		}
	}
	send()
	src.Sinks[1].Disabled, src.Split = false, forebay.SplitNone
	if err := s.eng.Define(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	send()
	if got, want := s.keyed(), "a 2, b 2, quarantine 0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The key of a batch of telemetry outlives a rotation too.
func TestKeyOfTelemetryOutlivesRotation(t *testing.T) {
	src := telemetry()
	s := newService(t, nil, src)
	batch := recentLogs(t, "one", "two")
	send := func(secret string) string {
		t.Helper()
		status, header, answer := s.export("/otlp/1/app/"+secret+"/v1/logs", batch, "Content-Type", protobuf, "Idempotency-Key", "k")
		if status != 200 {
			t.Fatalf("status %d: %s", status, answer)
		}
		return header.Get("Idempotent-Replayed")
	}
	send(webSecret)
	src.Secret = newSecret
	if err := s.eng.Define(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	if again := send(newSecret); again != "true" {
		t.Errorf("replayed %q after the rotation, want true", again)
	}
	if n := s.tables()["logs"]; n != 2 {
		t.Errorf("got %d rows of logs, want 2", n)
	}
}

// A source that gets the id of a deleted source does not inherit the keys of the deleted source.
func TestKeyEndsWithItsSource(t *testing.T) {
	src := scopeSource(forebay.SplitArray)
	s := newService(t, nil, src)
	send := func(secret string) {
		t.Helper()
		status, header, answer := s.export("/stream/1/shop/"+secret, []byte(`[{"n":1}]`), "Content-Type", jsonBody, "Idempotency-Key", "k")
		if status != 200 || header.Get("Idempotent-Replayed") != "" {
			t.Fatalf("status %d, replayed %q, want 200 and a new request: %s", status, header.Get("Idempotent-Replayed"), answer)
		}
	}
	send(webSecret)
	if err := s.eng.Remove(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	src.Secret = newSecret
	if err := s.eng.Define(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	send(newSecret)
}
