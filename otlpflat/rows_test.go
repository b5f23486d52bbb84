package otlpflat_test

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

// plain hides everything of a document but mapping.FieldDocument, so that each cell of each record is made separately.
type plain struct{ mapping.FieldDocument }

// everything are columns with all members of all records, with each kind of column.
func everything() (cols mapping.Columns) {
	names := strings.Fields(`timestamp observed_timestamp severity_number severity_text body flags trace_id span_id attributes resource scope event_name
		dropped_attributes_count resource_dropped_attributes_count resource_schema_url end_timestamp parent_span_id trace_state name kind status_code
		status_message events links duration_ns dropped_events_count dropped_links_count metric_name metric_type value start_timestamp`)
	for _, name := range names {
		cols = append(cols, mapping.Path("json "+name, name, mapping.Default(nil)), mapping.Path("raw "+name, name, mapping.RawString(), mapping.Default("none")))
	}
	for i, path := range []string{`resource["service.name"]`, "scope.name", "scope", "resource", "scope.attributes", "resource.a1", "body.a1", "attributes.a1"} {
		cols = append(cols, mapping.Path(fmt.Sprint("part ", i), path, mapping.Default(nil)))
	}
	return append(cols, mapping.Template("name", `Body("scope.name", "") + Body("body", "")`))
}

// with returns the columns after a change of each.
func with(cols mapping.Columns, change func(*mapping.Column)) mapping.Columns {
	for i := range cols {
		change(&cols[i])
	}
	return cols
}

func mappersOf(t *testing.T) (all []*mapping.Mapper) {
	t.Helper()
	parquet, postgres := datatype.Limits{UTF8: true, MaxCell: 1 << 30}, datatype.Limits{NoNUL: true}
	for i, c := range []struct {
		cols   mapping.Columns
		limits datatype.Limits
	}{
		{otlpflat.LogsTable(), parquet},
		{otlpflat.TracesTable(), parquet},
		{otlpflat.MetricsTable(), parquet},
		{everything(), datatype.Limits{}},
		{otlpflat.LogColumns()[1:], parquet},
		{otlpflat.SpanColumns()[1:], postgres},
		{otlpflat.LogsTable(), postgres},
		{everything(), parquet},
		{otlpflat.LogsTable(), datatype.Limits{MaxCell: 26}},
		{otlpflat.LogsTable(), datatype.Limits{MaxCell: 19}},
		{otlpflat.LogsTable(), datatype.Limits{MaxYear: 2000}},
		{with(otlpflat.LogsTable(), func(c *mapping.Column) { c.Required = true }), parquet},
		{with(otlpflat.LogsTable(), func(c *mapping.Column) { c.EmptyIsNull = false }), parquet},
		{with(otlpflat.LogsTable(), func(c *mapping.Column) { c.Default, c.DefaultOnNull = []byte(`null`), true }), parquet},
		{with(otlpflat.LogsTable(), func(c *mapping.Column) {
			if c.DataType == datatype.Timestamp {
				c.NotBefore = "1971-01-01T00:00:00.000000Z"
			}
		}), parquet},
	} {
		m, err := mapping.Compile(c.cols, mapping.Options{Limits: c.limits})
		if err != nil {
			t.Fatalf("mapper %d: %v", i, err)
		}
		all = append(all, m)
	}
	return all
}

// wide gives a batch resources that are too large to be kept, and a service name.
func (g generator) wide(batch plog.Logs) plog.Logs {
	for _, rl := range batch.ResourceLogs().All() {
		a := rl.Resource().Attributes()
		switch g.IntN(3) {
		case 0:
			a.PutStr("huge", strings.Repeat(`"`, 20<<10))
		case 1:
			a.PutStr("service.name", g.text())
		}
	}
	return batch
}

// Rows are the same as if each of their cells was made for each record, for many mappers in turn, of batches with many resources and scopes,
// empty ones, and ones of which a mapper sees only some records.
func TestRowsOfGroups(t *testing.T) {
	g := newGenerator(seedtest.Of(t))
	mappers := mappersOf(t)
	rows, refused := 0, 0
	var rec mapping.Record
	for range 150 {
		for _, docs := range []iter.Seq[mapping.FieldDocument]{
			otlpflat.Logs(g.wide(g.logs())), otlpflat.Metrics(g.metrics()), otlpflat.Traces(g.traces()),
		} {
			order := g.Perm(len(mappers))
			often := g.IntN(4)
			for doc := range docs {
				for _, k := range order {
					if g.IntN(4) < often {
						continue
					}
					rec.Reset()
					rec.Document = doc
					got, gotErr := mappers[k].AppendRow([]byte("before "), &rec)
					want, wantErr := mappers[k].AppendRow([]byte("before "), &mapping.Record{Document: plain{doc}})
					if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || !bytes.Equal(got, want) {
						t.Fatalf("mapper %d\ngot  %s, %v\nwant %s, %v", k, got, gotErr, want, wantErr)
					}
					rows++
					if gotErr != nil {
						refused++
					}
				}
			}
		}
	}
	if rows-refused < 1000 || refused < 100 {
		t.Errorf("%d rows were compared, %d were refused", rows, refused)
	}
}

// Mappers are shared. Several goroutines use one for records of different signals.
func TestRowsInParallel(t *testing.T) {
	mappers := mappersOf(t)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			g := newGenerator(uint64(i))
			for range 20 {
				for _, docs := range []iter.Seq[mapping.FieldDocument]{otlpflat.Logs(g.logs()), otlpflat.Metrics(g.metrics()), otlpflat.Traces(g.traces())} {
					for doc := range docs {
						for k, m := range mappers {
							got, gotErr := m.AppendRow(nil, &mapping.Record{Document: doc})
							want, wantErr := m.AppendRow(nil, &mapping.Record{Document: plain{doc}})
							if (gotErr == nil) != (wantErr == nil) || !bytes.Equal(got, want) {
								t.Errorf("mapper %d\ngot  %s, %v\nwant %s, %v", k, got, gotErr, want, wantErr)
								return
							}
						}
					}
				}
			}
		})
	}
	all.Wait()
}

// The allocations for a batch do not depend on how many records it has.
func TestRowsAllocateByBatch(t *testing.T) {
	m, err := mapping.Compile(otlpflat.LogsTable(), mapping.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rec, out := new(mapping.Record), []byte(nil)
	var counts []float64
	for _, copies := range []int{1, 20} {
		batch := logBatch(150)
		records := batch.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
		for range copies - 1 {
			logBatch(150).ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().MoveAndAppendTo(records)
		}
		counts = append(counts, testing.AllocsPerRun(20, func() {
			out = out[:0]
			for doc := range otlpflat.Logs(batch) {
				rec.Reset()
				rec.Document = doc
				if out, err = m.AppendRow(out, rec); err != nil {
					t.Fatal(err)
				}
			}
		}))
	}
	if slices.Max(counts) > 30 || counts[1] > counts[0]+1 {
		t.Errorf("got %v allocations for batches of 100 and 2000 records, want at most 30 and no more for the larger", counts)
	}
}
