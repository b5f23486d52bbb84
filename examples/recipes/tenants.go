package recipes

import (
	"net/http"
	"net/url"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// tenantHeader carries the tenant from the handler to the column. A client cannot set it, because [Tenants] overwrites it.
const tenantHeader = "X-Tenant"

// SharedEvents has the events of all tenants in one table with a column for the tenant.
func SharedEvents(secret string) forebay.Source {
	return forebay.Source{ID: "app", Secret: secret, Sinks: []forebay.Sink{{
		ID: "events", OnReject: forebay.Quarantine,
		Table: forebay.Table{ID: "events", Extend: true, Columns: mapping.Columns{
			mapping.Template("tenant", `Header("`+tenantHeader+`")`, mapping.DataType(datatype.String), mapping.Required()),
			mapping.Datetime("at", mapping.DataType(datatype.Timestamp)),
			mapping.Path("kind", "kind", mapping.DataType(datatype.String)),
			mapping.Body("event", mapping.DataType(datatype.JSON)),
		}},
	}}}
}

// Tenants hands requests to events, the handler of package stream, at the path of a source. tenantOf says which tenant a request is from, for example by
// its API key. A request without a tenant gets 401.
func Tenants(events http.Handler, path string, tenantOf func(*http.Request) (tenant string, ok bool)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant, ok := tenantOf(r)
		if !ok {
			http.Error(w, "the API key is unknown", http.StatusUnauthorized)
			return
		}
		event := r.Clone(r.Context())
		event.URL = &url.URL{Path: path}
		event.Header.Set(tenantHeader, tenant)
		if key := r.Header.Get("Idempotency-Key"); key != "" {
			event.Header.Set("Idempotency-Key", tenant+"/"+key) // two tenants may choose the same key
		}
		events.ServeHTTP(w, event)
	})
}
