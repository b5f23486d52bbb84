package buffer_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
)

// writeFormat makes the test write the fixture of the current format first. A fixture is written once, because a released format
// never changes, and a new version gets a new folder.
var writeFormat = flag.Bool("write-format", false, "write buffer/testdata/format of the current version")

// The fixtures are data directories of released formats, with their staging and tables, in a state where each kind of
// record is there. Later releases must open them, find their contents, and bring every row to its table once.
func TestFormatsOfAllReleases(t *testing.T) {
	current := fmt.Sprintf("testdata/format/v%d", format.Newest)
	if *writeFormat {
		writeCurrentFormat(t, current)
	}
	fixtures, err := filepath.Glob("testdata/format/v*")
	if err != nil || len(fixtures) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	page, err := os.ReadFile("../docs/upgrades.md")
	must(t, err)
	for _, fixture := range fixtures {
		if !strings.Contains(string(page), "`buffer/"+filepath.ToSlash(fixture)+"`") {
			t.Errorf("docs/upgrades.md does not name %s", fixture)
		}
		t.Run(filepath.Base(fixture), func(t *testing.T) {
			root := t.TempDir()
			must(t, os.CopyFS(root, os.DirFS(fixture)))
			got := describeStore(t, root) + drained + drainFixture(t, root)
			if *writeFormat && fixture == current {
				must(t, os.WriteFile(filepath.Join(fixture, "want.txt"), []byte(got), 0o644))
			}
			want, err := os.ReadFile(filepath.Join(fixture, "want.txt"))
			must(t, err)
			if got != string(want) {
				t.Errorf("the fixture is read as\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Rows that a release without types has left are untyped. A table with the same id and typed columns does not get them, and
// says so. They wait until it has its text columns again.
func TestOldRowsMeetATypedTable(t *testing.T) {
	root := t.TempDir()
	must(t, os.CopyFS(root, os.DirFS("testdata/format/v1")))
	const id = "in.c-test.staged"
	opts := fixtureOptions(root)
	if err := opts.Target.Ensure(t.Context(), driver.Table{ID: id, Columns: []datatype.Column{
		{Name: "id", Type: datatype.Int64}, {Name: "value", Type: datatype.String},
	}}); err != nil {
		t.Fatal(err)
	}
	b, err := buffer.Open(filepath.Join(root, "data"), opts)
	must(t, err)
	defer b.Close()
	var held *buffer.HeldError
	const want = `the column "id" is untyped in the mapping and int64 in the table, the column "value" is untyped in the mapping and string in the table. Rows that already wait need the table changed. For new rows, give the sink another table, ` +
		`or these columns the types of the table or another name`
	if err := b.Sink("staged").Flush(t.Context()); !errors.As(err, &held) || held.Rows != 5 || !strings.HasSuffix(err.Error(), want) {
		t.Fatalf("flush: %v", err)
	}
	must(t, os.RemoveAll(filepath.Join(root, "tables", id)))
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
	must(t, err)
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
	replayFixture(t, b)
	for _, s := range b.Stats().Sinks {
		if err := b.Sink(s.ID).Flush(t.Context()); err != nil && s.ID != "expired" && s.ID != "discarded" {
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
		_ = b.Sink(s.ID).Flush(context.Background()) // some cannot
		fmt.Println(s.ID)
	}
	select {}
}

// A process that opens a data directory of the first release, with rows in every state, is killed at any moment of the upgrade and
// of what follows.
func TestKillsDuringUpgrades(t *testing.T) {
	if root, ok := proctest.Child(); ok {
		t.Fatal(drainUntilKilled(root))
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	const fixture = "testdata/format/v1"
	text, err := os.ReadFile(filepath.Join(fixture, "want.txt"))
	must(t, err)
	_, want, _ := strings.Cut(string(text), drained)
	rng := seedtest.Rand(t)
	found := map[string]int{}
	for range proctest.Kills(t) {
		root := t.TempDir()
		must(t, os.CopyFS(root, os.DirFS(fixture)))
		for range 1 + rng.IntN(2) {
			p := proctest.Start(t, t.Name(), root)
			p.Lines(1+rng.IntN(rng.IntN(12)+1), time.Duration(rng.IntN(20_000))*time.Microsecond, func(string) {})
		}
		version, err := os.ReadFile(filepath.Join(root, "data/forebay-format"))
		must(t, err)
		found[strings.TrimSpace(string(version))]++
		if got := drainFixture(t, root); got != want {
			t.Errorf("the tables have\n%s\nwant\n%s", got, want)
		}
	}
	t.Logf("the format after the kills: %v", found)
}

func fixtureOptions(root string) buffer.Options {
	const forEver = 200 * 365 * 24 * time.Hour
	return buffer.Options{
		Staging: dir.Staging(filepath.Join(root, "staging")), Target: dir.Tables(filepath.Join(root, "tables")),
		Targets: map[string]driver.Target{"second": dir.Tables(filepath.Join(root, "second"))},
		Tuning:  buffer.Tuning{MemTableBytes: 1 << 20, KeyRetention: forEver, DamageRetention: forEver},
	}
}

// describeStore says what an inspection finds, and how many records of each kind there are.
func describeStore(t *testing.T, root string) string {
	t.Helper()
	var out strings.Builder
	in, err := buffer.Inspect(filepath.Join(root, "data"), buffer.InspectOptions{Staging: dir.Staging(filepath.Join(root, "staging"))})
	must(t, err)
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
	must(t, err)
	for _, s := range in.Stats().Sinks {
		for r, err := range in.Rejected(t.Context(), s.ID, "") {
			must(t, err)
			fmt.Fprintf(&out, "rejected %s by %s: %s\n", r.ID, r.SinkID, describeRejected(t, in, r))
		}
	}
	for _, d := range damaged {
		fmt.Fprintf(&out, "damage %s: slice %s of %s, chunks %d to %d, %d rows, at %s\n",
			d.ID, d.SliceID, d.SinkID, d.FirstChunk, d.LastChunk, d.Rows, d.At.Format(time.DateTime))
	}
	must(t, in.Close())
	for _, kind := range slices.Sorted(maps.Keys(recordKinds(t, filepath.Join(root, "data")))) {
		fmt.Fprintln(&out, kind)
	}
	return out.String()
}

// recordKinds counts what stands in the store itself.
func recordKinds(t *testing.T, dir string) map[string]bool {
	t.Helper()
	db, err := pebble.Open(dir, &pebble.Options{ReadOnly: true, Logger: quiet{}})
	must(t, err)
	defer db.Close()
	it, err := db.NewIter(nil)
	must(t, err)
	defer it.Close()
	counts := map[string]int{}
	for ok := it.First(); ok; ok = it.Next() {
		switch it.Key()[0] {
		case format.PrefixChunk:
			h, _, err := format.ParseChunk(it.Value())
			counts[fmt.Sprintf("chunk, encoding %s", driver.Encoding(h.Encoding))]++
			if err != nil {
				t.Error(err)
			}
		case format.PrefixFile:
			var f format.File
			if err := format.Decode(it.Value(), &f); err != nil {
				t.Error(err)
			}
			kind := fmt.Sprintf("file %s, encoding %s, copied %v, forgotten %v, progress %q",
				f.State, driver.Encoding(f.Def.Encoding), f.Copied, f.Forgotten, f.Progress)
			if f.Split != nil {
				var refused []format.RefusedRow
				for _, p := range f.Split.Parts {
					refused = slices.AppendSeq(refused, p.Skip.All())
				}
				kind += fmt.Sprintf(", %d parts, refused %v", len(f.Split.Parts), refused)
			}
			counts[kind]++
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
	folders, err := filepath.Glob(filepath.Join(root, "*", "in.*"))
	must(t, err)
	rows := map[string][]string{}
	for _, folder := range folders {
		target, id := filepath.Split(folder)
		table := id
		if filepath.Base(target) != "tables" {
			table = filepath.Base(target) + " " + id
		}
		for row, err := range dir.Tables(target).Cells(id) {
			must(t, err)
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
