package otlpflat_test

import (
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

// A sender of telemetry cannot correct a NUL in a text. If the target cannot store NUL, each one becomes U+FFFD, in texts and in JSON, as bytes
// that are not UTF-8 do. Other targets get it unchanged.
func TestNULOfTelemetryIsMended(t *testing.T) {
	batch := plog.NewLogs()
	resource := batch.ResourceLogs().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", "sh\x00op")
	record := resource.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	record.Body().SetStr("a\x00b\xff\"c")
	record.SetSeverityText("in\x00fo")
	record.Attributes().PutStr("k\x00ey", `x\u0000`+"\x00")
	columns := append(otlpflat.LogsTable(),
		mapping.Body("document", mapping.DataType(datatype.JSON)), mapping.Path("raw", "body", mapping.RawString()), mapping.Path("quoted", "body"))
	for name, limits := range map[string]datatype.Limits{"no NUL": {NoNUL: true, UTF8: true}, "any": {}} {
		mapper, err := mapping.Compile(columns, mapping.Options{Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		for doc := range otlpflat.Logs(batch) {
			row, err := mapper.AppendRow(nil, &mapping.Record{Document: doc})
			if err != nil {
				t.Fatalf("%s: got %v, want no error", name, err)
			}
			nul, escaped := "\x00", `\u0000`
			if limits.NoNUL {
				nul, escaped = "\ufffd", "\ufffd"
			}
			for _, want := range []string{
				`"sh` + nul + `op"`, `"in` + nul + `fo"`, `"a` + nul + "b\ufffd" + `""c"`,
				`{""k` + escaped + `ey"":""x\\u0000` + escaped + `""}`, // the text of six characters that looks like an escape stays
			} {
				if !strings.Contains(string(row), want) {
					t.Errorf("%s: the row lacks %q: %q", name, want, row)
				}
			}
			if limits.NoNUL && strings.Contains(string(row), "\x00") {
				t.Errorf("%s: the row has a NUL: %q", name, row)
			}
		}
	}
}
