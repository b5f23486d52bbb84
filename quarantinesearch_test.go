package forebay_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// A list can be searched by the contents of its records: body, headers, host, path and query, in any case, before an edit and after
// it.
func TestQuarantineContent(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, events(keeping, func(s *forebay.Source) { s.KeepHeaders = []string{"X-Shop"} }))
	q := e.Sink("web", "users").Quarantine()
	for i := range 3 {
		_, err := e.Ingest(t.Context(), "web", &mapping.Record{
			Body: fmt.Appendf(nil, `{"user":{"name":"Zoë %d \xff"}}`, i), Format: mapping.FormatJSON, Host: fmt.Sprintf("Host%d.example", i),
			Header:  http.Header{"X-Shop": {"7", fmt.Sprint("Number", i)}, "Authorization": {"canary"}},
			Request: mapping.RequestLine{Path: fmt.Sprint("/Path", i), Query: fmt.Sprint("token=canary&Q=", i)},
		})
		must(t, err)
	}
	second := rejectedOf(t, e, forebay.RejectedFilter{})[1]
	must(t, q.Edit(t.Context(), second.ID, 0, []byte(`{"user":{"name":"Kurt"}}`)))
	for content, want := range map[string]int{
		"": 3, "user": 3, "zOË 1": 1, "ZOË": 3, "kurt": 1, "HOST2": 1, "x-shop: 7": 3, "X-SHOP: number0": 1, "x-shop": 3, "/path1": 1, "q=2": 1,
		"canary": 0, "7number": 0, "missing": 0, "\x00": 0,
	} {
		if got := rejectedOf(t, e, forebay.RejectedFilter{Content: content}); len(got) != want {
			t.Errorf("got %d records contain %q, want %d", len(got), content, want)
		}
	}
	if got := rejectedOf(t, e, forebay.RejectedFilter{Content: "zoë", After: second.ID}); len(got) != 1 {
		t.Errorf("got %d records behind the second one, want 1", len(got))
	}
	if n, err := q.DiscardAll(t.Context(), forebay.RejectedFilter{Content: "kurt"}); err != nil || n != 1 || q.Has(second.ID) {
		t.Errorf("%d were discarded, %v", n, err)
	}
	if has, err := q.Contains(t.Context(), second.ID, "kurt"); err != nil || has {
		t.Errorf("%v, %v of a record that is gone", has, err)
	}
}

// A page reads a bounded part of the content, continues where it stopped when it found nothing, and ends.
func TestQuarantinePages(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, events(keeping))
	large := bytes.Repeat([]byte{'x'}, 6<<20)
	var want []string
	for i := range 9 {
		body := bad
		if i%4 != 3 {
			body = fmt.Sprintf(`{"n":%d,"user":{"name":"%s"}}`, i, large)
		}
		res, err := e.Ingest(t.Context(), "web", mapping.JSON([]byte(body))) // the other sink refuses a row of this size
		if res.Sinks[0].Status != forebay.Quarantined {
			t.Fatalf("got %+v, %v, want res.Sinks[0].Status == %v", res, err, forebay.Quarantined)
		}
	}
	for _, r := range rejectedOf(t, e, forebay.RejectedFilter{Content: "bob"}) {
		want = append(want, r.ID)
	}
	if len(want) != 2 {
		t.Fatalf("%d records match, want 2", len(want))
	}
	pages := func(f forebay.RejectedFilter, limit int) (ids []string, counts []int) {
		t.Helper()
		for range 20 {
			p, err := e.Sink("web", "users").Quarantine().Page(t.Context(), f, limit)
			must(t, err)
			for _, r := range p.Records {
				ids = append(ids, r.ID)
			}
			counts = append(counts, len(p.Records))
			if p.Next == "" != p.NextAt.IsZero() {
				t.Errorf("next %q of %s", p.Next, p.NextAt)
			}
			if f.After = p.Next; f.After == "" {
				return ids, counts
			}
		}
		t.Fatal("the list has no end")
		return nil, nil
	}
	for _, limit := range []int{0, 1, 2, 9} {
		ids, counts := pages(forebay.RejectedFilter{Content: "bob"}, limit)
		// 16 MiB are three of the large ones.
		if fmt.Sprint(ids) != fmt.Sprint(want) || counts[0] != 0 || len(counts) < 3 {
			t.Errorf("pages of %d have %d records of %v", limit, counts, ids)
		}
		if ids, counts := pages(forebay.RejectedFilter{}, limit); len(ids) != 9 || counts[0] != max(limit, 1) {
			t.Errorf("pages of %d without a filter have %d records", limit, counts)
		}
	}
}

// Who reads a record while others edit it gets one of its states. An edit is no reason to fail.
func TestQuarantineReadsBesideEdits(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, events(keeping))
	q := e.Sink("web", "users").Quarantine()
	mustIngest(t, e, "web", mapping.JSON([]byte(bad)))
	id := rejectedOf(t, e, forebay.RejectedFilter{})[0].ID
	edited := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 2000 && err == nil; i++ {
			err = q.Edit(t.Context(), id, i, fmt.Appendf(nil, `{"user":{"name":"Bob %0*d"}}`, 1+i%7, i))
		}
		edited <- err
	}()
	for reads := 0; ; reads++ {
		if _, err := q.Get(t.Context(), id); err != nil {
			t.Fatalf("read %d: %v", reads, err)
		}
		if _, err := q.Test(t.Context(), id); err != nil {
			t.Fatalf("test %d: %v", reads, err)
		}
		select {
		case err := <-edited:
			must(t, err)
			return
		default:
		}
	}
}
