package buffer_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/killtest"
	"github.com/forebay/forebay/internal/localdisk"
)

// writeFormat makes the test write the fixture of the current format first. A fixture is written once: a released format
// never changes, and a new version gets a folder of its own.
var writeFormat = flag.Bool("write-format", false, "write buffer/testdata/format of the current version")

// The fixtures are data directories of released formats, with their staging and tables, in a state where each kind of
// record is there. Whatever later releases do, they open them, find what is in them, and bring every row to its table once.
func TestFormatsOfAllReleases(t *testing.T) {
	current := fmt.Sprintf("testdata/format/v%d", format.Newest)
	if *writeFormat {
		writeCurrentFormat(t, current)
	}
	fixtures, err := filepath.Glob("testdata/format/v*")
	if err != nil || len(fixtures) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, fixture := range fixtures {
		t.Run(filepath.Base(fixture), func(t *testing.T) {
			root := t.TempDir()
			if err := os.CopyFS(root, os.DirFS(fixture)); err != nil {
				t.Fatal(err)
			}
			got := describeStore(t, root) + drained + drainFixture(t, root)
			if *writeFormat && fixture == current {
				if err := os.WriteFile(filepath.Join(fixture, "want.txt"), []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(filepath.Join(fixture, "want.txt"))
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the fixture is read as\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Rows that a release without types has left are untyped. A table with the same id and typed columns does not get them, and
// says so; they wait until it has its text columns again.
func TestOldRowsMeetATypedTable(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/format/v1")); err != nil {
		t.Fatal(err)
	}
	const id = "in.c-test.staged"
	opts := fixtureOptions(root)
	if err := opts.Target.Ensure(t.Context(), buffer.Table{ID: id, Columns: []datatype.Column{
		{Name: "id", Type: datatype.Int64}, {Name: "value", Type: datatype.String},
	}}); err != nil {
		t.Fatal(err)
	}
	b, err := buffer.Open(filepath.Join(root, "data"), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var held *buffer.HeldError
	const want = `the column "id" is untyped in the mapping and int64 in the table: give the sink another table or the column another name, ` +
		`or change its type in the table by hand; rows that wait already need the table changed`
	if err := b.Flush(t.Context(), "staged"); !errors.As(err, &held) || held.Rows != 5 || !strings.HasSuffix(err.Error(), want) {
		t.Fatalf("flush: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(root, "tables", id)); err != nil {
		t.Fatal(err)
	}
	flush(t, b, "staged")
	verify(t, b)
	if got := describeTables(t, root); !strings.Contains(got, id+": 0(60) 1(60) 2(60) 3(60) 4(60)\n") {
		t.Errorf("the tables have\n%s", got)
	}
}

// drained is the line of want.txt before the rows in the tables.
const drained = "\ndrained:\n"

// drainFixture opens a data directory, brings every row to its table, and describes the tables.
func drainFixture(t *testing.T, root string) string {
	t.Helper()
	b, err := buffer.Open(filepath.Join(root, "data"), fixtureOptions(root))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	// The calls 1 and 2 were made before and are known. Call 3 is new.
	writing := define(t, b, "writing")
	for key, want := range map[int]int{1: 0, 2: 0, 3: 1} {
		if n := mustOnce(t, b, key, writing); n != want {
			t.Errorf("call %d stores its row %d times more, want %d", key, n, want)
		}
	}
	for _, s := range b.Stats().Sinks {
		if err := b.Flush(t.Context(), s.ID); err != nil && s.ID != "expired" && s.ID != "discarded" {
			t.Errorf("sink %s: %v", s.ID, err)
		}
	}
	verify(t, b)
	return describeTables(t, root)
}

// drainUntilKilled opens a data directory and drains it. It prints how far it is.
func drainUntilKilled(root string) error {
	fmt.Println("begun")
	b, err := buffer.Open(filepath.Join(root, "data"), fixtureOptions(root))
	if err != nil {
		return err
	}
	fmt.Println("opened")
	for _, s := range b.Stats().Sinks {
		_ = b.Flush(context.Background(), s.ID) // some cannot
		fmt.Println(s.ID)
	}
	select {}
}

// A process that opens a data directory of the first release, with rows in every state, is killed at any moment of the upgrade and
// of what follows.
func TestKillsDuringUpgrades(t *testing.T) {
	if root, ok := killtest.Child(); ok {
		t.Fatal(drainUntilKilled(root))
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	const fixture = "testdata/format/v1"
	text, err := os.ReadFile(filepath.Join(fixture, "want.txt"))
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(string(text), drained)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	found := map[string]int{}
	for range killtest.Count(t) {
		root := t.TempDir()
		if err := os.CopyFS(root, os.DirFS(fixture)); err != nil {
			t.Fatal(err)
		}
		for range 1 + rng.IntN(2) {
			p := killtest.Start(t, t.Name(), root)
			p.Lines(1+rng.IntN(rng.IntN(12)+1), time.Duration(rng.IntN(20_000))*time.Microsecond, func(string) {})
		}
		version, err := os.ReadFile(filepath.Join(root, "data/forebay-format"))
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimSpace(string(version))]++
		if got := drainFixture(t, root); got != want {
			t.Errorf("seed %d: the tables have\n%s\nwant\n%s", seed, got, want)
		}
	}
	t.Logf("seed %d: the format after the kills: %v", seed, found)
}

func fixtureOptions(root string) buffer.Options {
	const forEver = 200 * 365 * 24 * time.Hour
	return buffer.Options{
		Staging: dir.Staging(filepath.Join(root, "staging")), Target: dir.Tables(filepath.Join(root, "tables")),
		Tuning: buffer.Tuning{MemTableBytes: 1 << 20, KeyRetention: forEver, DamageRetention: forEver},
	}
}

// describeStore says what an inspection finds, and how many records of each kind there are.
func describeStore(t *testing.T, root string) string {
	t.Helper()
	var out strings.Builder
	in, err := buffer.Inspect(filepath.Join(root, "data"), buffer.InspectOptions{Staging: dir.Staging(filepath.Join(root, "staging"))})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range in.Stats().Sinks {
		if s.Version > 0 {
			fmt.Fprintf(&out, "sink %s: version %d, retired %v\n", s.ID, s.Version, s.Retired)
		}
		fmt.Fprintf(&out, "sink %s: accepted %d, local %d, staging %d, target %d, expired %d, damaged %d, discarded %d, dropped %v\n",
			s.ID, s.Accepted, s.Local.Rows, s.Staging.Rows, s.Target.Rows, s.Expired.Rows, s.Damaged.Rows, s.Discarded.Rows, s.Dropped)
		for _, f := range s.Files {
			fmt.Fprintf(&out, "  file %s %s by %q: %d rows of %d bytes in %d slices, %d attempts, %q\n",
				f.ID, f.State, f.Reason, f.Level.Rows, f.Level.RawBytes, f.Slices, f.Attempt, f.RetryReason)
		}
	}
	for _, s := range in.Slices() {
		var rows strings.Builder
		if err := in.WriteRows(t.Context(), &rows, s.ID); err != nil {
			rows.WriteString(err.Error())
		}
		fmt.Fprintf(&out, "slice %s of %s %s by %q: %d rows of %d bytes, %d attempts, %d lines of %d bytes\n", s.ID, s.SinkID, s.State,
			s.Reason, s.Level.Rows, s.Level.RawBytes, s.Attempt, strings.Count(rows.String(), "\n"), rows.Len())
	}
	damaged, err := in.Damaged(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range damaged {
		fmt.Fprintf(&out, "damage %s: slice %s of %s, chunks %d to %d, %d rows, at %s\n",
			d.ID, d.SliceID, d.SinkID, d.FirstChunk, d.LastChunk, d.Rows, d.At.Format(time.DateTime))
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	for _, kind := range slices.Sorted(maps.Keys(recordKinds(t, filepath.Join(root, "data")))) {
		fmt.Fprintln(&out, kind)
	}
	return out.String()
}

// recordKinds counts what stands in the store itself.
func recordKinds(t *testing.T, dir string) map[string]bool {
	t.Helper()
	db, err := pebble.Open(dir, &pebble.Options{ReadOnly: true, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	it, err := db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	counts := map[string]int{}
	for ok := it.First(); ok; ok = it.Next() {
		switch it.Key()[0] {
		case format.PrefixChunk:
			h, _, err := format.ParseChunk(it.Value())
			counts[fmt.Sprintf("chunk, encoding %s", buffer.Encoding(h.Encoding))]++
			if err != nil {
				t.Error(err)
			}
		case format.PrefixFile:
			var f format.File
			if err := format.Decode(it.Value(), &f); err != nil {
				t.Error(err)
			}
			counts[fmt.Sprintf("file %s, encoding %s, copied %v, forgotten %v, progress %q",
				f.State, buffer.Encoding(f.Def.Encoding), f.Copied, f.Forgotten, f.Progress)]++
		case format.PrefixReceipt:
			at, life, data, err := format.ParseReceipt(it.Value())
			counts[fmt.Sprintf("receipt of %s, life %d, data %q", at.Format(time.DateTime), life, data)]++
			if err != nil {
				t.Error(err)
			}
		case 'm':
			counts["value "+string(it.Key())]++
		default:
			counts[fmt.Sprintf("record %c", it.Key()[0])]++
		}
	}
	kinds := map[string]bool{}
	for kind, n := range counts {
		kinds[fmt.Sprintf("%s: %d", kind, n)] = true
	}
	return kinds
}

// describeTables says which rows are in the tables, by the files' contents.
func describeTables(t *testing.T, root string) string {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(root, "tables", "in.*"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, folder := range folders {
		table := filepath.Base(folder)
		for row, err := range dir.Tables(filepath.Join(root, "tables")).Cells(table) {
			if err != nil {
				t.Fatal(err)
			}
			value := "NULL"
			if row[1] != nil {
				value = fmt.Sprint(len(row[1]))
			}
			rows[table] = append(rows[table], fmt.Sprintf("%s(%s)", row[0], value))
		}
	}
	var out strings.Builder
	for _, table := range slices.Sorted(maps.Keys(rows)) {
		slices.Sort(rows[table])
		fmt.Fprintf(&out, "%s: %s\n", table, strings.Join(rows[table], " "))
	}
	return out.String()
}

// fixtureDrivers are the directory drivers, of which some calls fail by the sink.
type fixtureDrivers struct {
	buffer.Staging
	buffer.Target
}

var errAway = errors.New("the server is away")

func (d fixtureDrivers) Put(ctx context.Context, obj buffer.Object, src buffer.Content) error {
	if obj.SinkID == "uploading" {
		if _, err := src.WriteTo(io.Discard); err != nil {
			return err
		}
		return errAway
	}
	return d.Staging.Put(ctx, obj, src)
}

func (d fixtureDrivers) Delete(ctx context.Context, objs ...buffer.Object) error {
	if id := objs[0].SinkID; id == "imported" || id == "forgotten" {
		return errAway
	}
	return d.Staging.Delete(ctx, objs...)
}

func (d fixtureDrivers) Extend(context.Context, buffer.Table) error { return nil }

func (d fixtureDrivers) Import(ctx context.Context, f *buffer.File) error {
	switch f.SinkID {
	case "expired", "discarded":
		return errAway
	case "importing":
		return errors.Join(f.SaveProgress(ctx, []byte("job 7")), errAway)
	case "permanent":
		return buffer.Permanent(errAway)
	}
	return d.Target.Import(ctx, f)
}

func writeCurrentFormat(t *testing.T, root string) {
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	disk := vfs.NewMem()
	synctest.Test(t, func(t *testing.T) { writeFixture(t, root, disk, func(d time.Duration) { time.Sleep(d) }) })
	names, err := disk.List("data")
	if err == nil {
		err = os.MkdirAll(filepath.Join(root, "data"), 0o755)
	}
	for _, name := range names {
		if info, e := disk.Stat("data/" + name); err != nil || e != nil || info.IsDir() || name == "LOCK" {
			err = errors.Join(err, e)
			continue
		}
		data, e := disk.UnsafeGetFileDataBuffer("data/" + name)
		err = errors.Join(err, e, os.WriteFile(filepath.Join(root, "data", name), data, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func writeFixture(t *testing.T, root string, disk *vfs.MemFS, sleep func(time.Duration)) {
	opts := fixtureOptions(root)
	drivers := fixtureDrivers{opts.Staging, opts.Target}
	opts.Staging, opts.Target = drivers, drivers
	opts = localdisk.On(opts, disk)
	begin := func() *buffer.Buffer {
		b, err := buffer.Open("data", opts)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// fill appends rows, each a commit of its own; long ones are compressed by themselves.
	fill := func(b *buffer.Buffer, s *buffer.SinkHandle, from, to, size int) {
		for i := from; i < to; i++ {
			put1(t, b, s, i, strings.Repeat("basin ", size/6))
		}
	}
	with := func(e buffer.Encoding, slice int64) func(*buffer.SinkConfig) {
		return func(c *buffer.SinkConfig) { c.Encoding, c.Upload.Count = e, slice }
	}
	after := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		sleep(3 * time.Second)
	}
	const many = 1000

	b := begin()
	fill(b, define(t, b, "expired", with(buffer.Gzip, many)), 0, 3, 60)
	after(b.CloseFile(t.Context(), "expired", 1))
	sleep(8 * 24 * time.Hour)
	fill(b, define(t, b, "discarded", with(buffer.None, many)), 0, 2, 60)
	after(b.CloseFile(t.Context(), "discarded", 1))
	after(b.Discard(t.Context(), "discarded", waitingFile(t, b)))
	fill(b, define(t, b, "uploading", with(buffer.Zstd, many)), 0, 5, 6000)
	after(b.CloseFile(t.Context(), "uploading", 1))
	after(b.Close())
	editChunks(t, disk, func(n int, value []byte) []byte {
		if n == 2 {
			value[len(value)-1] ^= 1
		}
		return value
	})

	b = begin()
	sleep(time.Minute) // until the damage is set aside
	for _, s := range []struct {
		id       string
		encoding buffer.Encoding
		size     int
	}{{"importing", buffer.Gzip, 6000}, {"permanent", buffer.Zstd, 60}, {"imported", buffer.Gzip, 60}, {"done", buffer.None, 60}, {"dropped", buffer.Gzip, 60}, {"forgotten", buffer.Gzip, 60}} {
		fill(b, define(t, b, s.id, with(s.encoding, 2)), 0, 5, s.size)
		after(b.CloseFile(t.Context(), s.id, 1))
	}
	after(b.Drop(t.Context(), "dropped"))
	after(b.Drop(t.Context(), "forgotten"))
	after(b.Forget(t.Context(), "forgotten"))
	after(b.Checkpoint(t.Context(), "copy"))
	fill(b, define(t, b, "done", with(buffer.Zstd, 2)), 5, 8, 6000)
	after(b.CloseFile(t.Context(), "done", 1))
	fill(b, define(t, b, "staged", with(buffer.None, 2)), 0, 5, 60)
	typed := []datatype.Column{
		{Name: "id", Type: datatype.Int64, Required: true}, {Name: "value", Type: datatype.String}, {Name: "price", Type: datatype.Decimal(5, 2)}, {Name: "any"},
	}
	cells := func(b *buffer.Buffer, s *buffer.SinkHandle, rows ...string) {
		t.Helper()
		for _, row := range rows {
			ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: []byte(row + "\n"), Count: 1})
			if err := errors.Join(err, ticket.Wait(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
	}
	cells(b, define(t, b, "typed", with(buffer.Gzip, 2), func(c *buffer.SinkConfig) { c.Table.Columns = typed }),
		`"0",,"1.50","x"`, `"1","",,""`, `"2","null",,"null"`)
	for _, columns := range [][]datatype.Column{typed[:2], typed, typed[:2]} {
		extended := define(t, b, "extended", with(buffer.Zstd, 2), func(c *buffer.SinkConfig) {
			c.Table.Columns, c.Table.Extend, c.Mapping = columns, true, fmt.Appendf(nil, "mapping of %d columns", len(columns))
		})
		if len(columns) == 2 {
			cells(b, extended, `"3",`, `"4","v"`, `"5",""`)
		}
	}
	writing := define(t, b, "writing")
	fill(b, writing, 10, 12, 60)
	fill(b, writing, 12, 14, 6000)
	for key := range 3 {
		if key > 0 {
			mustOnce(t, b, key, writing)
		}
	}
	after(b.Close())
}
