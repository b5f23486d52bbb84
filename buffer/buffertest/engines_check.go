package buffertest

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
)

const (
	engineCount  = 3
	engineRounds = 4                // of rows and a flush, for each engine
	engineRows   = 10               // of a round
	engineWait   = 2 * time.Minute  // for all that one engine does
	engineRetry  = time.Millisecond // before the first repetition of a call
	defineTries  = 20               // a definition may give up on a table that others use
)

// engines lets several buffers, each with its own target, feed one table at once. They know nothing of each other, as in several
// processes. Where a table can grow, they have different columns, and one defines its table while others import.
func engines(t tb, b *bench) {
	if b.reopen == nil {
		t.Skipf("the harness has no Reopen")
	}
	table := eventsTable("id", "text", "sum")
	tables := []driver.Table{table, table, table}
	if _, ok := b.Target.(driver.Extender); ok {
		tables = []driver.Table{extendedTable(idColumn, textColumn), extendedTable(sumColumn, idColumn), extendedTable(idColumn)}
	}
	all := make([]engine, engineCount)
	leases := NewLeases()
	for i := range all {
		target := b.Target
		if i > 0 {
			target = b.reopen()
		}
		staging := b.staging
		if staging == nil {
			staging = NewMemory()
		}
		opened, err := buffer.Open("data", localdisk.On(buffer.Options{
			Staging: staging, Target: target, Leases: leases.Process(fmt.Sprint("process ", i)),
			Tuning: buffer.Tuning{MemTableBytes: 1 << 20, Retry: buffer.Retry{Initial: engineRetry, Probe: time.Second}},
		}, vfs.NewMem()))
		if err != nil {
			t.Fatalf("open a buffer: %v", err)
		}
		defer opened.Close()
		all[i] = engine{opened, tables[i], i}
		b.Target = target // whose rows the harness reads
	}
	mustTogether(t, "feeding one table", len(all), func(i int) error {
		ctx, cancel := context.WithTimeout(t.Context(), engineWait)
		defer cancel()
		return all[i].feed(ctx)
	})
	columns := tables[0].Columns
	if tables[0].Extend {
		columns = b.columnsOf(tables[0].ID)
	}
	var want [][]string
	for _, e := range all {
		for round := range engineRounds {
			want = append(want, e.rows(round, columns)...)
		}
	}
	b.compare(tables[0].ID, b.read(tables[0].ID), want, true)
	for i, e := range all {
		report, err := e.Verify(t.Context())
		if err != nil || !report.OK() {
			t.Errorf("Verify of engine %d of %d = %+v, %v: CountFile counts the rows of one file, whoever imported it", i, len(all), report, err)
		}
		if err := e.Close(); err != nil {
			t.Errorf("close the buffer: %v", err)
		}
	}
}

// engine is a buffer whose only sink has a table.
type engine struct {
	*buffer.Buffer
	table driver.Table
	n     int
}

// rows returns rows with these columns, NULL where the engine has none.
func (e engine) rows(round int, columns []datatype.Column) (rows [][]string) {
	own := make(map[string]bool)
	for _, c := range e.table.Columns {
		own[c.Name] = true
	}
	for i := range engineRows {
		row := make([]string, len(columns))
		for k, c := range columns {
			switch {
			case !own[c.Name]:
				row[k] = Null
			case c.Name == idColumn.Name:
				row[k] = fmt.Sprintf("%d-%d-%d", e.n, round, i)
			case c.Name == sumColumn.Name:
				row[k] = fmt.Sprint(i)
			default:
				row[k] = "text"
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// feed defines the sink and stores the rows of all rounds in the table. It repeats what may succeed later, as the owner of an engine does.
func (e engine) feed(ctx context.Context) error {
	const id = "source/sink"
	sink, err := e.Define(ctx, buffer.SinkConfig{ID: id, Table: e.table, Encoding: driver.Gzip})
	for tries := 1; err != nil && !driver.IsPermanent(err) && tries < defineTries; tries++ {
		sink, err = e.Define(ctx, buffer.SinkConfig{ID: id, Table: e.table, Encoding: driver.Gzip})
	}
	if err != nil {
		return fmt.Errorf("define the sink: %w", err)
	}
	for round := range engineRounds {
		var data []byte
		for _, row := range e.rows(round, e.table.Columns) {
			data = appendRow(data, row)
		}
		ticket, err := e.Append(ctx, time.Now(), buffer.Rows{Sink: sink, Data: data, Count: engineRows})
		if err == nil {
			err = ticket.Wait(ctx)
		}
		if err == nil {
			err = e.Sink(id).Flush(ctx)
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}
