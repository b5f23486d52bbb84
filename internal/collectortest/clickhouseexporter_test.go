package collectortest

import (
	"io"
	"slices"
	"strings"
	"testing"
)

// The view otel_logs has the rows of the table otel_logs that the Collector's exporter for ClickHouse makes of the same records.
func TestExporterOfClickHouse(t *testing.T) {
	batch := oddLogs()
	sample().ResourceLogs().MoveAndAppendTo(batch.ResourceLogs())
	request, want := encoded(t, batch), batch.LogRecordCount()

	view := newPlace(t, toClickHouse)
	s := startForebay(t, view)
	if err := connect(t, s.addr)(request); err != nil {
		t.Fatal(err)
	}
	s.flush()
	s.wait()
	table := newPlace(t, toClickHouse)
	c := startCollector(t, io.Discard, table.kind, t.TempDir(), table.where)
	if err := connect(t, c.addr)(request); err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, &c.logs)
	}
	table.wait(int64(want))

	var columns []string
	for _, row := range clickhouseServer.Rows(t, "SELECT name, type FROM system.columns WHERE database = '"+table.database+"' AND table = 'otel_logs' AND default_kind = '' ORDER BY position") {
		name := *row[0]
		if strings.HasPrefix(*row[1], "Map") {
			name = "mapSort(" + name + ")"
		}
		columns = append(columns, "toString("+name+")")
	}
	rows := func(p place) (all []string) {
		for _, row := range clickhouseServer.Rows(t, "SELECT "+strings.Join(columns, ", ")+" FROM "+p.database+".otel_logs") {
			var cells []string
			for _, cell := range row {
				cells = append(cells, *cell)
			}
			all = append(all, strings.Join(cells, " | "))
		}
		slices.Sort(all)
		return all
	}
	ours, theirs := rows(view), rows(table)
	if len(columns) < 16 || len(ours) != want || len(theirs) != want {
		t.Fatalf("the view has %d rows, the exporter's table %d in %d columns, want %d in 16", len(ours), len(theirs), len(columns), want)
	}
	for i := range want {
		if ours[i] != theirs[i] {
			t.Errorf("the view has the row\n%s\nthe exporter's table\n%s", ours[i], theirs[i])
		}
	}
}
