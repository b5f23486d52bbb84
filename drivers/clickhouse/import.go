package clickhouse

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// note is what Import saves before it sends rows. An attempt that finds a note is not the first attempt.
type note struct {
	// BlockBytes was Options.BlockBytes. All attempts divide the file alike.
	BlockBytes int64 `json:"blockBytes"`
	// At is the time of the first attempt, or zero if it is unknown.
	At time.Time `json:"at"`
}

// A retry within resendFor repeats all blocks of a table that feeds materialized views. Because of the tokens, the server ignores blocks that the table
// already has. It feeds the views with the rows that they lack after an error or a crash. The age and the window ensure that the server still knows the
// tokens, unless more than 16 blocks a second are stored in the table.
const (
	resendFor    = 10 * time.Minute
	resendWindow = 10_000
)

// block contains the slices of a file that one INSERT sends.
type block struct {
	slices []driver.Object
	first  int64 // the first row, counted from the start of the file
	rows   int64
	marker string
}

// blocksOf divides a file. Slices of at most the given bytes are sent together, before compression.
func blocksOf(f *driver.File, bytes int64) (blocks []block) {
	var size, row int64
	for _, obj := range f.Slices {
		if blocks == nil || size+obj.RawBytes > bytes {
			blocks = append(blocks, block{first: row})
			size = 0
		}
		b := &blocks[len(blocks)-1]
		b.slices = append(b.slices, obj)
		b.rows += obj.Rows
		size += obj.RawBytes
		row += obj.Rows
	}
	for i := range blocks {
		blocks[i].marker = markerOf(f.ID, blocks[i].rows, i+1, len(blocks))
	}
	return blocks
}

// markerOf returns the content of the marker column of a block, which is the id of its file, the number of its rows, and its position if the file
// has several blocks.
func markerOf(fileID string, rows int64, i, n int) string {
	m := fmt.Sprintf("%s %d", fileID, rows)
	if n > 1 {
		m += fmt.Sprintf(" %d/%d", i, n)
	}
	return m
}

// ofFile returns the condition for the rows of a file. A range lets the index of the column skip parts of the table.
func ofFile(fileID string) string {
	return quote(marker) + " > " + literal(fileID+" ") + " AND " + quote(marker) + " < " + literal(fileID+"!")
}

// attempts limits the attempts of one Import, because a user may drop a column or the table after each Ensure.
const attempts = 5

// Import implements [driver.Target].
func (t *Target) Import(ctx context.Context, f *driver.File) error {
	if err := t.check(f.Table); err != nil {
		return err
	}
	in := &intake{Target: t, file: f, retry: f.Progress != nil || f.Copied}
	n := note{BlockBytes: t.options.BlockBytes, At: time.Now()}
	if f.Copied {
		n.At = time.Time{} // another engine may have been first, long ago
	}
	if f.Progress != nil {
		if err := json.Unmarshal(f.Progress, &n); err != nil || n.BlockBytes < 1 {
			return driver.Permanent(fmt.Errorf("clickhouse: the note of file %s cannot be read: it is %q", f.ID, f.Progress))
		}
	} else if f.SaveProgress != nil {
		saved, err := json.Marshal(n)
		if err == nil {
			err = f.SaveProgress(ctx, saved)
		}
		if err != nil {
			return err
		}
	}
	in.blocks, in.first = blocksOf(f, n.BlockBytes), n.At
	var last error
	for range attempts {
		ready, err := in.prepare(ctx)
		if err != nil {
			return classify(err)
		}
		if !ready {
			if err := t.Ensure(ctx, f.Table); err != nil {
				return err
			}
			continue
		}
		err = in.importAll(ctx)
		switch code(err) {
		case unknownTable, noSuchColumn, typeMismatch: // the table was changed since
			t.setVoids(false)
		case unknownSetting: // the server is a different one
			t.setSettings(nil)
		case throwIf:
			if raised(err, saysVoid) {
				return t.ruledOut(ctx, f, in.relation.engine)
			}
			return classify(err)
		default:
			return classify(err)
		}
		in.retry, last = true, err
	}
	if last != nil && code(last) != unknownTable {
		return classify(last)
	}
	return fmt.Errorf("clickhouse: %w: %s", errNoTable, t.table(f.Table.ID))
}

// ruledOut returns the outcome of a file that Void has processed. Void may have found that the file was complete.
func (t *Target) ruledOut(ctx context.Context, f *driver.File, engine string) error {
	complete, _, err := t.stored(ctx, f.Table.ID, engine, f.ID)
	if err != nil || complete {
		return classify(err)
	}
	return driver.Permanent(fmt.Errorf("clickhouse: file %s: %w", f.ID, driver.ErrVoid))
}

// intake is the state of one Import.
type intake struct {
	*Target
	file   *driver.File
	retry  bool      // an earlier attempt, or a different engine, may have stored blocks
	first  time.Time // of the first attempt
	blocks []block

	relation *relation
	fields   []field
	settings map[string]string
}

// field is a column of the rows that are sent.
type field struct {
	name     string // "" for a cell that is left out
	declared string // the type that the parser reads
	value    string // the value for the table, as SQL
}

// prepare reads the table, and returns an error if the table cannot accept the rows.
func (in *intake) prepare(ctx context.Context) (ready bool, err error) {
	r, err := in.Target.relation(ctx, in.file.Table.ID)
	if err != nil || r == nil {
		return false, err
	}
	changes, err := in.changes(in.file.Table, r)
	if err != nil || changes != nil {
		return false, err
	}
	in.Target.mu.Lock()
	known := in.voids
	in.Target.mu.Unlock()
	if !known {
		return false, nil
	}
	counted, have, _, err := fit(in.file.Table, r.columns)
	if err != nil {
		return false, err
	}
	in.relation = r
	in.fields = fieldsOf(in.file.Table, counted, have)
	in.settings, err = in.insertSettings(ctx)
	return err == nil, err
}

// fieldsOf returns the cells of a row in their order.
func fieldsOf(table driver.Table, counted []column, have []datatype.Column) []field {
	fields := make([]field, len(table.Columns))
	for i, at := range table.Places(have) {
		if at < 0 {
			continue
		}
		// The cells have separate names, because the name of a column could hide a different column in an expression.
		cell := quote("cell " + strconv.Itoa(at))
		f := field{name: counted[i].name, value: cell}
		name, _ := counted[i].base()
		switch table.Columns[at].Type {
		case datatype.Bool: // the parser accepts no Bool in quotes
			f.declared, f.value = "Nullable(String)", "toBool("+cell+")"
		case datatype.Bytes:
			f.declared, f.value = "Nullable(String)", "base64Decode("+cell+")"
		case datatype.JSON, datatype.String, datatype.Untyped:
			f.declared = "Nullable(String)"
		default:
			f.declared = "Nullable(" + name + ")"
		}
		if have[i].Required {
			f.declared = strings.TrimSuffix(strings.TrimPrefix(f.declared, "Nullable("), ")")
		}
		fields[at] = f
	}
	return fields
}

// importAll sends the blocks that the table lacks.
func (in *intake) importAll(ctx context.Context) error {
	var present map[string]int64
	if in.retry && !in.resend(ctx) {
		var err error
		if present, err = in.present(ctx); err != nil {
			return err
		}
		for m := range present {
			if !slices.ContainsFunc(in.blocks, func(b block) bool { return b.marker == m }) {
				return driver.Permanent(fmt.Errorf("a different engine has stored file %s in blocks of another size: set Options.BlockBytes to the value of that engine", in.file.ID))
			}
		}
	}
	settled := make(map[string]bool)
	for again := range tokens {
		sent := false
		for _, b := range in.blocks {
			// An earlier attempt has stored the rows that exist, unless partitions are missing.
			n := present[b.marker]
			if settled[b.marker] || n >= b.rows || n > 0 && in.relation.partition == "" {
				continue
			}
			written, err := in.insert(ctx, b, n > 0 || again > 0, again)
			if err != nil {
				if refused := refusedRows(err, b.first); refused != nil {
					return refused
				}
				return err
			}
			sent, settled[b.marker] = true, again > 0 && written <= 0 // it lacks no partition
		}
		if !sent || !in.retry || !in.relation.forgets() {
			return nil
		}
		err := in.settle(ctx)
		if err == nil {
			present, err = in.present(ctx)
		}
		if err != nil {
			return err
		}
	}
	if in.relation.ttl {
		return nil // the rows have expired
	}
	return fmt.Errorf("the server ignores blocks of file %s that are not in the table: set non_replicated_deduplication_window of the table to 0", in.file.ID)
}

// tokens is the number of tokens under which a retry sends a block. A server that is killed may have noted a token without its part. It then ignores the
// block under this token, but not under the next one. A different attempt cannot store the rows under the first token, which the server knows.
const tokens = 5

// settle waits until no other attempt sends a block of the file. Its token is known before its rows are visible.
func (in *intake) settle(ctx context.Context) error {
	for {
		rows, err := in.client.rows(ctx, "SELECT count() FROM system.processes WHERE startsWith("+tokenSetting+", "+literal(in.file.ID+" ")+")")
		if err != nil || len(rows) == 0 || rows[0][0] == "0" {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settlePause):
		}
	}
}

const (
	tokenSetting = "Settings['insert_deduplication_token']"
	settlePause  = 50 * time.Millisecond
)

// resend reports whether a retry repeats blocks that the table has.
func (in *intake) resend(ctx context.Context) bool {
	age := time.Since(in.first)
	if !in.relation.views || age < 0 || age >= resendFor {
		return false
	}
	if replicated(in.relation.engine) {
		return in.remembers(ctx, in.relation)
	}
	return in.relation.window >= resendWindow
}

// present returns the number of rows of each block of the file that is in the table.
func (in *intake) present(ctx context.Context) (map[string]int64, error) {
	rows, err := in.markers(ctx, in.file.Table.ID, in.relation.engine, in.file.ID)
	if err != nil {
		return nil, err
	}
	present := make(map[string]int64)
	for _, row := range rows {
		if present[row[0]], err = strconv.ParseInt(row[1], 10, 64); err != nil {
			return nil, err
		}
	}
	return present, nil
}

// markers returns the markers of a file that are in a table, and the number of rows of each.
func (t *Target) markers(ctx context.Context, table, engine, fileID string) ([][]string, error) {
	host := t.client.hosts[t.client.current.Load()]
	if err := t.catchUp(ctx, host, table, engine); err != nil {
		return nil, err
	}
	settings := make(map[string]string)
	if err := t.addSettings(ctx, settings, current); err != nil {
		return nil, err
	}
	return t.client.rowsFrom(ctx, host, "SELECT "+quote(marker)+", count() FROM "+t.table(table)+" WHERE "+ofFile(fileID)+" GROUP BY 1", settings)
}

// catchUp waits until a replica has all rows that other replicas have stored. A different replica may lack some of them.
func (t *Target) catchUp(ctx context.Context, host, table, engine string) error {
	if !replicated(engine) {
		return nil
	}
	_, err := t.client.rowsFrom(ctx, host, "SYSTEM SYNC REPLICA "+t.table(table)+" LIGHTWEIGHT")
	return err
}

// insert sends a block under a token, and returns the rows that the server has stored or ignored, or -1 if it does not say. If the table may have a part of
// the block, only the missing partitions are stored.
func (in *intake) insert(ctx context.Context, b block, partly bool, again int) (written int64, err error) {
	var names, cells, values []string
	for at, f := range in.fields {
		cells = append(cells, quote("cell "+strconv.Itoa(at))+" "+f.declared)
		names = append(names, quote(f.name))
		values = append(values, f.value+" AS "+quote(f.name))
	}
	names, values = append(names, quote(marker)), append(values, literal(b.marker)+" AS "+quote(marker))
	// The condition is computed for the whole block at once, before anything is stored. It has no value that decides whether the other is computed.
	sql := "SELECT " + strings.Join(values, ", ") +
		" FROM input(" + literal(strings.Join(cells, ", ")) + ")" +
		fmt.Sprintf(" WHERE throwIf(blockSize() != %d, %s) + throwIf((SELECT count() FROM %s WHERE file_id = %s) > 0, %s) = 0",
			b.rows, literal(saysRows), in.table(voids), literal(in.file.ID), literal(saysVoid))
	if partly {
		sql = "SELECT * FROM (" + sql + ") WHERE tuple(" + in.relation.partition + ") NOT IN (SELECT DISTINCT tuple(" + in.relation.partition +
			") FROM " + in.table(in.file.Table.ID) + " WHERE " + quote(marker) + " = " + literal(b.marker) + ")"
	}
	sql = "INSERT INTO " + in.table(in.file.Table.ID) + " (" + strings.Join(names, ", ") + ") " + sql + " FORMAT CustomSeparated\n"
	settings := maps.Clone(in.settings)
	rows := strconv.FormatInt(b.rows, 10)
	for _, name := range []string{"max_block_size", "max_insert_block_size"} {
		settings[name] = rows
	}
	settings["insert_deduplication_token"] = b.marker
	if again > 0 {
		settings["insert_deduplication_token"] += fmt.Sprintf(" again %d", again)
	}
	encoding := driver.None
	if all := b.slices[0].Encoding; !slices.ContainsFunc(b.slices, func(obj driver.Object) bool { return obj.Encoding != all }) {
		encoding = all
	}
	s := statement{settings: settings, body: func(ctx context.Context) (io.ReadCloser, error) {
		head, err := encode(encoding, sql)
		return &rowsReader{ctx: ctx, file: in.file, slices: b.slices, decode: encoding == driver.None, current: io.NopCloser(bytes.NewReader(head))}, err
	}}
	if encoding != driver.None {
		s.encoding = encoding.String()
	}
	_, header, err := in.client.send(ctx, s)
	if e, ok := errors.AsType[*serverError](err); ok {
		e.rows = true
	}
	if err != nil {
		return -1, err
	}
	return in.confirm(ctx, b, header.Get("X-ClickHouse-Summary"))
}

// confirm looks for the rows of a block if the server reports no stored rows. The server may have ignored a repeated block, or has seen no row at all.
func (in *intake) confirm(ctx context.Context, b block, summary string) (written int64, err error) {
	var s struct {
		Written json.Number `json:"written_rows"`
	}
	written = -1
	if json.Unmarshal([]byte(summary), &s) == nil {
		if n, err := s.Written.Int64(); err == nil {
			written = n
		}
	}
	if written > 0 {
		return written, nil
	}
	present, err := in.present(ctx)
	if err == nil && present[b.marker] == 0 {
		err = fmt.Errorf("the server has stored none of the %d rows of a block of file %s: %s", b.rows, in.file.ID, "its slices are damaged, or the rows were deleted within the deduplication window")
	}
	return written, err
}

// encode returns a statement as the first frame of a body.
func encode(e driver.Encoding, sql string) ([]byte, error) {
	var buf bytes.Buffer
	switch e {
	case driver.Gzip:
		w := gzip.NewWriter(&buf)
		_, err := w.Write([]byte(sql))
		err = errors.Join(err, w.Close())
		return buf.Bytes(), err
	case driver.Zstd:
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return w.EncodeAll([]byte(sql), nil), w.Close()
	}
	return []byte(sql), nil
}

// rowsReader reads the statement, and then each slice.
type rowsReader struct {
	ctx     context.Context
	file    *driver.File
	slices  []driver.Object
	decode  bool
	current io.ReadCloser
}

func (r *rowsReader) Read(p []byte) (int, error) {
	for {
		n, err := r.current.Read(p)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return n, err
		}
		if err == nil {
			continue
		}
		if err := r.current.Close(); err != nil {
			return 0, err
		}
		r.current = io.NopCloser(bytes.NewReader(nil))
		if len(r.slices) == 0 {
			return 0, io.EOF
		}
		obj := r.slices[0]
		r.slices = r.slices[1:]
		open := r.file.OpenSlice
		if r.decode {
			open = r.file.OpenRows
		}
		src, err := open(r.ctx, obj)
		if err != nil {
			return 0, fmt.Errorf("slice %s: %w", obj.ID, err)
		}
		r.current = src
	}
}

func (r *rowsReader) Close() error { return r.current.Close() }
