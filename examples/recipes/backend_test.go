package recipes

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
)

// Tenants sign up, get columns and leave while the backend runs. After a restart they are as they were, with their secrets, and rows that waited
// reach their tables.
func TestBackend(t *testing.T) {
	ctx, data := t.Context(), t.TempDir()
	var b *Backend
	open := func() {
		t.Helper()
		var err error
		if b, err = OpenBackend(data, forebay.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	post := func(path, body string) int {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		stream.Ingest(b.Engine, stream.Options{}).ServeHTTP(w, r)
		return w.Code
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	kind := mapping.Columns{mapping.Path("kind", "kind", mapping.RawString())}
	open()
	must(b.AddTenant(ctx, "Ann", "acme", kind))
	must(b.AddTenant(ctx, "Ann", "bolt", kind))
	must(b.AddTenant(ctx, "Ann", "gone", kind))
	acme, err := b.Path("acme")
	must(err)
	gone, err := b.Path("gone")
	must(err)
	if status := post(acme, `{"kind":"paid"}`); status != 200 {
		t.Errorf("status %d of a new tenant", status)
	}
	if status := post(gone, `{"kind":"last"}`); status != 200 {
		t.Errorf("status %d of a new tenant", status)
	}
	must(b.SetColumns(ctx, "Ben", "acme", append(kind, mapping.Path("sum", "sum", mapping.RawString(), mapping.Default("")))))
	must(b.RemoveTenant(ctx, "Ben", "gone"))
	var refused *catalog.Error
	if err := b.AddTenant(ctx, "Ann", "acme", kind); !errors.As(err, &refused) || refused.Code != catalog.SourceAlreadyExists {
		t.Errorf("a tenant that exists: %v", err)
	}

	must(b.Close())
	open()
	defer func() { must(b.Close()) }()
	if again, err := b.Path("acme"); err != nil || again != acme {
		t.Errorf("the path is %q after a restart, %v", again, err)
	}
	if _, err := b.Path("gone"); !errors.As(err, &refused) || refused.Code != catalog.SourceNotFound {
		t.Errorf("a tenant that has left: %v", err)
	}
	if status := post(acme, `{"kind":"paid","sum":"7"}`); status != 200 {
		t.Errorf("status %d after a restart", status)
	}
	if status := post(gone, `{"kind":"too late"}`); status != 404 {
		t.Errorf("status %d of a tenant that has left", status)
	}
	_, sink, err := b.Catalog.Sink("acme", "events")
	if err != nil || sink.Version.Number != 2 || sink.Version.By.UserName != "Ben" {
		t.Errorf("version %+v, %v", sink.Version, err)
	}
	must(b.Engine.FlushAll(ctx))
	for table, want := range map[string][]string{"in.c-acme.events": {"paid", "paid 7"}, "in.c-gone.events": {"last"}} {
		var got []string
		for row, err := range dir.Tables(filepath.Join(data, "tables")).Rows(table) {
			must(err)
			got = append(got, strings.TrimSpace(strings.Join(row, " ")))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("table %s has %q, want %q", table, got, want)
		}
	}
}

// Hundreds of tenants are there after a restart.
func TestBackendWithManyTenants(t *testing.T) {
	data := t.TempDir()
	for restart := range 2 {
		b, err := OpenBackend(data, forebay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			tenant := fmt.Sprintf("tenant-%03d", i)
			if restart == 0 {
				if err := b.AddTenant(t.Context(), "Ann", tenant, mapping.Columns{mapping.Path("kind", "kind")}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := b.Engine.Ingest(t.Context(), tenant, mapping.JSON([]byte(`{"kind":"paid"}`))); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
