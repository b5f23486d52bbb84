package kept

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/mapping"
)

// Secrets in URLs are masked wherever senders and proxies write URLs, and nothing else is changed.
func TestPublicText(t *testing.T) {
	for text, want := range map[string]string{
		"https://x/reset?token=canary":                                  "https://x/reset?token=***",
		"/reset?a=1&Access_Token=canary;b=2#id_token=canary":            "/reset?a=1&Access_Token=***;b=2#id_token=***",
		"https://user:canary@host/p?a=1":                                "https://***@host/p?a=1",
		"https://canary@host":                                           "https://***@host",
		"//u:c@na:ry@host/p":                                            "//***@host/p",
		"https://x/login?next=https%3A%2F%2Fx%2Freset%3Ftoken%3Dcanary": "https://x/login?next=***",
		"https://x/?next=a%253Ftoken%253Dcanary":                        "https://x/?next=***",
		"https://x/?%74oken=canary&a=1":                                 "https://x/?%74oken=***&a=1",
		"https://x/?a=%zztoken%3Dcanary":                                "https://x/?a=***",
		"https://x/;jsessionid=canary?a=1":                              "https://x/;jsessionid=***?a=1",
		`<https://x/?page=2&api_key=canary>; rel="next"`:                `<https://x/?page=2&api_key=***>; rel="next"`,
		"tenant=7,token=canary, plan=b":                                 "tenant=7,token=***, plan=b",

		"": "", "a=1&b=&=c&d": "a=1&b=&=c&d", "application/json; charset=utf-8": "application/json; charset=utf-8", "sale=100%&a=1": "sale=100%&a=1",
		"multipart/form-data; boundary=x": "multipart/form-data; boundary=x", "ada@example.com": "ada@example.com", "a=b=c": "a=b=c",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"https://x/?q=a+b%20c&r=%3Fa%3D1":                         "https://x/?q=a+b%20c&r=%3Fa%3D1",
	} {
		if got := publicText(text); got != want {
			t.Errorf("%q is kept as %q, want %q", text, got, want)
		}
	}
}

// The kept headers are the harmless headers, the headers that a mapping of the source reads, and the headers that it names.
func TestKeptHeaders(t *testing.T) {
	given := http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"till/2"}, "X-Github-Event": {"push"}, "Webhook-Id": {"7"}, "Webhook-Signature": {"canary"},
		"Referer": {"https://x/reset?token=canary", "/b"}, "X-Original-Uri": {"/reset/canary"}, "X-Unknown": {"canary"}, "X-Shop": {"7"}, "X-Plan": {"b"},
		"Authorization": {"canary"}, "COOKIE": {"canary"}, "X-Forwarded-For": {"192.0.2.1"}, "Via": {"/stream/source-secret"},
	}
	plain := []string{"Content-Type", "User-Agent", "Webhook-Id", "X-Forwarded-For", "X-Github-Event"}
	most := append(slices.Clone(plain), "Referer", "X-Original-Uri", "X-Plan", "X-Shop", "X-Unknown")
	for name, tt := range map[string]struct {
		columns mapping.Columns
		keep    []string
		want    []string
	}{
		"none":    {mapping.Columns{mapping.Body("body")}, nil, plain},
		"one":     {mapping.Columns{mapping.Template("shop", `local n = "x-shop"; [Header("referer", ""), if true then Header(default="", header="X-SHOP")]`)}, nil, append(slices.Clone(plain), "Referer", "X-Shop")},
		"given":   {mapping.Columns{mapping.Body("body")}, []string{"x-plan", "VIA"}, append(slices.Clone(plain), "X-Plan")},
		"star":    {mapping.Columns{mapping.Body("body")}, []string{"*"}, most},
		"column":  {mapping.Columns{mapping.Headers("headers")}, nil, most},
		"object":  {mapping.Columns{mapping.Template("all", `Header()`)}, nil, most},
		"text":    {mapping.Columns{mapping.Template("all", `std.length(HeaderStr())`)}, nil, most},
		"dynamic": {mapping.Columns{mapping.Template("any", `Header(Body("name"), "")`)}, nil, most},
		"value":   {mapping.Columns{mapping.Template("any", `local h = Header; h("X-Shop")`)}, nil, most},
		"secret":  {mapping.Columns{mapping.Template("auth", `Header("Authorization", "")`)}, nil, plain},
	} {
		mapper, err := mapping.Compile(tt.columns, mapping.Options{})
		if err != nil {
			t.Fatal(err)
		}
		head := headOf(&mapping.Record{Header: given}, NewRedactor([]string{"source-secret"}, tt.keep, mapper))
		got := make([]string, 0, len(head.Header))
		for name, values := range head.Header {
			got = append(got, name)
			if name != "X-Original-Uri" && name != "X-Unknown" && strings.Contains(strings.Join(values, ""), "canary") {
				t.Errorf("%s: %s is kept as %q", name, name, values)
			}
		}
		slices.Sort(got)
		slices.Sort(tt.want)
		if !slices.Equal(got, tt.want) || len(head.Removed) != len(given)-len(got) {
			t.Errorf("%s: the headers %q are kept and %q removed, want %q", name, got, head.Removed, tt.want)
		}
	}
	if want := []string{"https://x/reset?token=canary", "/b"}; !reflect.DeepEqual(given["Referer"], want) {
		t.Errorf("the record was changed: %q", given["Referer"])
	}
}
