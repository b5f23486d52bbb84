package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	pqformat "github.com/parquet-go/parquet-go/format"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
	"github.com/forebay/forebay/drivers/parquet/parquettest"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/seedtest"
)

// unsyncedDisk saves the time of syncs, because nothing crashes here.
type unsyncedDisk struct{ parts.Disk }

type unsyncedFile struct{ parts.File }

func (unsyncedFile) Sync() error { return nil }

func (unsyncedDisk) SyncDir(string) error { return nil }

func (d unsyncedDisk) Create(path string) (parts.File, error) {
	f, err := d.Disk.Create(path)
	return unsyncedFile{f}, err
}

// allocated is how many bytes this process has allocated.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// damagedParts is a table of two parts, one of which is damaged.
type damagedParts struct {
	columns []datatype.Column
	options Options
	target  *Target
	dir     string
	paths   [2]string
	whole   [2][]byte
	rows    [2][][]string
	headers []int64 // where pages begin in the second part
	footer  int64   // where its footer begins
	counts  bool    // its rows are counted too, as a repeated import does
}

func newDamagedParts(t *testing.T, columns []datatype.Column, o Options, rows [2][]string) *damagedParts {
	t.Helper()
	o.MergeTo = -1
	d := &damagedParts{columns: columns, options: o, counts: true}
	var err error
	if d.target, err = Tables(t.TempDir(), o); err != nil {
		t.Fatal(err)
	}
	d.target.folder.FS = unsyncedDisk{}
	d.dir = d.target.Path("t")
	for i := range rows {
		id := fmt.Sprintf("file-%d", i)
		if err := d.target.Import(t.Context(), storedFile(id, driver.Table{ID: "t", Columns: columns}, rows[i]...)); err != nil {
			t.Fatal(err)
		}
		d.paths[i] = filepath.Join(d.dir, id+extension)
		if d.whole[i], err = os.ReadFile(d.paths[i]); err != nil {
			t.Fatal(err)
		}
		if d.rows[i], err = parquettest.ReadPart(d.paths[i], columns); err != nil {
			t.Fatal(err)
		}
	}
	p, err := openFile(bytes.NewReader(d.whole[1]), int64(len(d.whole[1])))
	if err != nil {
		t.Fatal(err)
	}
	d.footer = p.end
	for g := range p.meta.RowGroups {
		for i := range columns {
			k := &p.meta.RowGroups[g].Columns[i]
			locations, err := p.locations(k)
			if err != nil {
				t.Fatal(err)
			}
			d.headers = append(d.headers, start(&k.MetaData))
			for _, l := range locations {
				d.headers = append(d.headers, l.Offset)
			}
		}
	}
	return d
}

// at is a place of a flip.
func (d *damagedParts) at(rng *rand.Rand) int64 {
	size := int64(len(d.whole[1]))
	switch rng.IntN(4) {
	case 0:
		return d.footer + rng.Int64N(size-d.footer)
	case 1:
		return min(size-1, d.headers[rng.IntN(len(d.headers))]+rng.Int64N(40))
	case 2:
		return size - 1 - rng.Int64N(8) // the length of the footer, and the magic
	}
	return rng.Int64N(size)
}

// damage returns a damaged part, and a description of the damage.
func (d *damagedParts) damage(rng *rand.Rand) (data []byte, what string) {
	data = bytes.Clone(d.whole[1])
	at := d.at(rng)
	switch kind := rng.IntN(10); kind {
	case 0:
		return data[:at], fmt.Sprintf("cut at %d", at)
	case 1:
		n := min(len(data)-int(at), 1+rng.IntN(20))
		return slices.Delete(data, int(at), int(at)+n), fmt.Sprintf("%d bytes less at %d", n, at)
	case 2, 3:
		n := min(len(data)-int(at), 1<<rng.IntN(10))
		for i := range n {
			if data[int(at)+i] = 0; kind == 3 {
				data[int(at)+i] = byte(rng.Uint32())
			}
		}
		return data, fmt.Sprintf("%d other bytes at %d", n, at)
	case 4:
		data[at] = byte(rng.Uint32())
		return data, fmt.Sprintf("another byte at %d", at)
	}
	bit := rng.IntN(8)
	data[at] ^= 1 << bit
	return data, fmt.Sprintf("bit %d at %d", bit, at)
}

// check reads the end of the part and merges it with the other one. Each gives the right rows, or an error that names the part.
func (d *damagedParts) check(t *testing.T, data []byte, what string) (tailed, merged bool) {
	t.Helper()
	if err := os.WriteFile(d.paths[1], data, 0o600); err != nil {
		t.Fatal(err)
	}
	all := d.rows[1]
	rows, _, err := LastRows(t.Context(), bytes.NewReader(data), int64(len(data)), d.columns, len(all)/2, MaxTail)
	if tailed = err == nil; tailed {
		want := all[len(all)-len(rows):]
		if got := tailTexts(driver.Tail{Rows: rows}); len(got) != len(all)/2 || !slices.EqualFunc(got, want, slices.Equal[[]string]) {
			t.Errorf("%s: the tail has wrong rows, %d of them", what, len(got))
		}
	}
	n, err := d.target.CountFile(t.Context(), driver.Table{ID: "t", Columns: d.columns}, "file-1")
	if d.counts && err == nil && n != int64(len(all)) || err != nil && (!driver.IsPermanent(err) || !strings.Contains(err.Error(), d.paths[1])) {
		t.Errorf("%s: %d rows are counted, %v", what, n, err)
	}
	var sources []parts.Part
	for i, path := range d.paths {
		id := fmt.Sprintf("file-%d", i)
		sources = append(sources, parts.Part{Name: filepath.Base(path), First: id, Last: id, Rows: -1, Files: 1, Extension: extension})
	}
	store, f := &d.target.folder.Store, d.target.folder.Format.(format)
	m, err := f.Merge(t.Context(), store, parts.Definition{ID: "t", Columns: d.columns}, d.dir, sources)
	switch {
	case err != nil:
		if !driver.IsPermanent(err) || !strings.Contains(err.Error(), d.paths[1]) {
			t.Errorf("%s: got %v, want a permanent error that names the part", what, err)
		}
		if left, err := filepath.Glob(filepath.Join(d.target.folder.Root, parts.TempDir, parts.MergeID+"*")); err != nil || len(left) > 0 {
			t.Errorf("%s: got leftovers of the failed merge %v, %v, want none", what, left, err)
		}
	case m.Temp != "":
		merged = true
		got, err := parquettest.ReadPart(m.Temp, d.columns)
		if want := slices.Concat(d.rows[0], all); err != nil || len(m.Taken) != 2 || !slices.EqualFunc(got, want, slices.Equal[[]string]) {
			t.Errorf("%s: the merged part has wrong rows, %d of them, %v", what, len(got), err)
		}
		if err := os.Remove(m.Temp); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range [2][]byte{d.whole[0], data} {
		if got, err := os.ReadFile(d.paths[i]); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: a part was changed, %v", what, err)
		}
	}
	return tailed, merged
}

// damagedTables are the tables of the tests, of all types with NULL and several row groups, compressed and not, with a dictionary that became too large
// in the middle of a chunk, and with one that several pages use.
func damagedTables(t *testing.T, rng *rand.Rand) map[string]*damagedParts {
	stored := func(n int) (rows []string) {
		for range n {
			rows = append(rows, storedRow(rng))
		}
		return rows
	}
	few := []datatype.Column{{Name: "a", Type: datatype.Float64}, {Name: "b", Type: datatype.Float64}, {Name: "kind", Type: datatype.String}, {Name: "ok", Type: datatype.Bool}}
	alike := func(n int) (rows []string) { // two columns of the same type and length, next to each other
		for range n {
			cells := []string{`"` + string(datatype.AppendFloat64(nil, float64(rng.IntN(100)))) + `"`, `"` + string(datatype.AppendFloat64(nil, float64(rng.IntN(100)))) + `"`}
			rows = append(rows, strings.Join(append(cells, `"`+[]string{"view", "click"}[rng.IntN(2)]+`"`, []string{`"true"`, `"false"`, ""}[rng.IntN(3)]), ",")+"\n")
		}
		return rows
	}
	grows := func(n int) (rows []string) {
		for i := range n {
			rows = append(rows, fmt.Sprintf("\"%s%d\"\n", strings.Repeat("x", 4<<10), max(0, i-n/3)))
		}
		return rows
	}
	kinds := func(n int) (rows []string) {
		for range n {
			rows = append(rows, `"`+[]string{"view", "click", "scroll", "a longer one"}[rng.IntN(4)]+"\"\n")
		}
		return rows
	}
	return map[string]*damagedParts{
		"all types":        newDamagedParts(t, storedColumns, Options{RowGroup: 25}, [2][]string{stored(20), stored(60)}),
		"all types, plain": newDamagedParts(t, storedColumns, Options{Compression: Plain}, [2][]string{stored(5), stored(40)}),
		"few columns":      newDamagedParts(t, few, Options{Compression: Snappy}, [2][]string{alike(3), alike(64)}),
		"dictionary":       newDamagedParts(t, []datatype.Column{{Name: "text", Type: datatype.String, Required: true}}, Options{Compression: Snappy}, [2][]string{grows(10), grows(900)}),
		"kinds":            newDamagedParts(t, []datatype.Column{{Name: "kind"}}, Options{Compression: Plain}, [2][]string{kinds(5), kinds(3*pageRows - 100)}),
	}
}

// Whatever bytes of a part are wrong, reading its end and merging it give the right rows or an error, in bounded memory, and the parts stay.
func TestDamagedParts(t *testing.T) {
	rng := seedtest.Rand(t)
	tables := damagedTables(t, rng)
	for _, name := range []string{"all types", "all types, plain", "few columns", "dictionary", "kinds"} {
		d := tables[name]
		cases := casetest.Of(2000, 200, 40)
		if name == "dictionary" || name == "kinds" { // megabytes when they are read
			cases = casetest.Of(300, 30, 5)
		}
		before := allocated()
		if tailed, merged := d.check(t, d.whole[1], "nothing"); !tailed || !merged {
			t.Fatalf("%s: the part is not read as it is", name)
		}
		bound := 4*(allocated()-before) + 16<<20
		var most uint64
		right := 0
		for i := range cases {
			data, what := d.damage(rng)
			before := allocated()
			if _, merged := d.check(t, data, fmt.Sprintf("%s, case %d, %s", name, i, what)); merged {
				right++
			}
			if most = max(most, allocated()-before); allocated()-before > bound {
				t.Errorf("%s, case %d, %s: %d MiB were allocated", name, i, what, (allocated()-before)>>20)
			}
			if t.Failed() {
				break
			}
		}
		t.Logf("%s, %d bytes: %d cases, %d merged, at most %d MiB", name, len(d.whole[1]), cases, right, most>>20)
	}
}

// Each bit of a part, one after the other. Without FOREBAY_CASES=all it takes steps.
func TestFlippedBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	tables := damagedTables(t, rng)
	for _, name := range []string{"few columns", "all types, plain", "all types"} {
		d := tables[name]
		bits := 8 * len(d.whole[1])
		step := casetest.Of(29, 397, 1997)
		if name == "few columns" {
			step = casetest.Of(3, 97, 397)
		}
		for bit := 0; bit < bits && !t.Failed(); bit += step {
			data := bytes.Clone(d.whole[1])
			data[bit/8] ^= 1 << (bit % 8)
			before := allocated()
			d.check(t, data, fmt.Sprintf("%s, bit %d at %d", name, bit%8, bit/8))
			if n := allocated() - before; n > 64<<20 {
				t.Errorf("%s, bit %d at %d: %d MiB were allocated", name, bit%8, bit/8, n>>20)
			}
		}
	}
	// The headers of pages and short dictionaries.
	for _, name := range []string{"dictionary", "kinds"} {
		d := tables[name]
		for i, at := range slices.Compact(slices.Sorted(slices.Values(d.headers))) {
			for bit := 0; bit < 8*70 && !t.Failed(); bit += casetest.Of(7, 97, 331) {
				data := bytes.Clone(d.whole[1])
				place := min(len(data)-1, int(at)+(bit+i)/8)
				data[place] ^= 1 << ((bit + i) % 8)
				d.check(t, data, fmt.Sprintf("%s, bit %d at %d", name, (bit+i)%8, place))
			}
		}
	}
}

// A table with a damaged part is not merged, or without it, and loses nothing.
func TestMergesKeepDamagedParts(t *testing.T) {
	rng := seedtest.Rand(t)
	table := driver.Table{ID: "t", Columns: storedColumns}
	for i := range casetest.Of(300, 25, 4) {
		target, err := Tables(t.TempDir(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		target.folder.FS = unsyncedDisk{}
		var files []*driver.File
		want := make(map[string][][]string)
		for n := range parts.MergeFrom {
			var rows []string
			for range 20 {
				rows = append(rows, storedRow(rng))
			}
			f := storedFile(fmt.Sprintf("file-%d", n), table, rows...)
			files = append(files, f)
			drivertest.Import(t, target, f)
			if want[f.ID], err = parquettest.ReadPart(filepath.Join(target.Path("t"), f.ID+extension), storedColumns); err != nil {
				t.Fatal(err)
			}
		}
		id := files[rng.IntN(len(files))].ID
		path := filepath.Join(target.Path("t"), id+extension)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data := bytes.Clone(whole)
		bit := rng.IntN(8 * len(data))
		data[bit/8] ^= 1 << (bit % 8)
		what := fmt.Sprintf("case %d, bit %d at %d of %d", i, bit%8, bit/8, len(data))
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		merr := target.Compact(t.Context(), table)
		left, err := filepath.Glob(filepath.Join(target.Path("t"), "*.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		if merr != nil && len(left) != len(files) {
			t.Errorf("%s: %d parts are left after %v", what, len(left), merr)
		}
		if stays, err := os.ReadFile(path); err == nil { // as it was, so repair it
			if !bytes.Equal(stays, data) {
				t.Errorf("%s: the part was changed", what)
			}
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
		} else if merr != nil || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: got %v after %v, want a missing file after no error", what, err, merr)
		}
		for _, f := range files { // repeated imports find their rows
			if err := target.Import(t.Context(), f); err != nil {
				t.Errorf("%s: got %v, want no error", what, err)
			}
		}
		got := make(map[string]int)
		for _, path := range left {
			rows, err := parquettest.ReadPart(path, storedColumns)
			if err != nil {
				t.Errorf("%s: got %v, want no error", what, err)
			}
			for _, row := range rows {
				got[strings.Join(row, "|")]++
			}
		}
		for _, rows := range want {
			for _, row := range rows {
				got[strings.Join(row, "|")]--
			}
		}
		for row, n := range got {
			if n != 0 {
				t.Fatalf("%s: got %d too many of the row %.200q, want 0", what, n, row)
			}
		}
	}
}

// The library takes the codec of a column's first chunk for all of them. Parts have one for each column, so that programs built on it can
// read them, and parts that have several, as parts of earlier releases do, are read correctly.
func TestCodecsOfOneColumn(t *testing.T) {
	columns := []datatype.Column{{Name: "text", Type: datatype.String, Required: true}, {Name: "f", Type: datatype.Float64}}
	rng := rand.New(rand.NewPCG(3, 4))
	noise := func(int) string {
		var text []byte
		for range 100 {
			text = append(text, byte('#'+rng.IntN(90)))
		}
		return fmt.Sprintf("\"%s\",\"%s\"\n", text, datatype.AppendFloat64(nil, rng.Float64()))
	}
	even := func(i int) string { return fmt.Sprintf("\"%s%d\",\"0.5\"\n", strings.Repeat("abc", 50), i) }
	const n = 1000
	groups := make(map[bool][]string)
	for i := range n {
		groups[false], groups[true] = append(groups[false], noise(i)), append(groups[true], even(i))
	}
	for _, evenFirst := range []bool{false, true} {
		rows := slices.Concat(groups[evenFirst], groups[!evenFirst])
		table := driver.Table{ID: "t", Columns: columns}
		target, err := Tables(t.TempDir(), Options{RowGroup: n, MergeTo: -1})
		if err != nil {
			t.Fatal(err)
		}
		drivertest.Import(t, target, storedFile("file-1", table, rows...))
		data, err := os.ReadFile(filepath.Join(target.Path("t"), "file-1.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		whole, err := parquettest.ReadPart(filepath.Join(target.Path("t"), "file-1.parquet"), columns)
		if err != nil || len(whole) != len(rows) {
			t.Errorf("even first %v: the library reads %d rows, %v", evenFirst, len(whole), err)
		}
		for i, row := range whole {
			if got := fmt.Sprintf("\"%s\",\"%s\"\n", row[0], row[1]); got != rows[i] {
				t.Fatalf("even first %v: the library reads %.100q, want %.100q", evenFirst, got, rows[i])
			}
		}
		// The row group of another part takes the place of the second one.
		other, err := Tables(t.TempDir(), Options{Compression: Plain, MergeTo: -1})
		if err != nil {
			t.Fatal(err)
		}
		drivertest.Import(t, other, storedFile("file-1", table, rows[n:]...))
		more, err := os.ReadFile(filepath.Join(other.Path("t"), "file-1.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := LastRows(t.Context(), bytes.NewReader(twoGroups(t, data, more)), int64(len(twoGroups(t, data, more))), columns, len(rows), MaxTail)
		if err != nil || len(got) != len(rows) {
			t.Fatalf("even first %v: %d rows of two codecs, %v", evenFirst, len(got), err)
		}
		for i, row := range got {
			if got := fmt.Sprintf("\"%s\",\"%s\"\n", row[0], row[1]); got != rows[i] {
				t.Fatalf("even first %v: row %d of two codecs is %.100q, want %.100q", evenFirst, i, got, rows[i])
			}
		}
	}
}

// twoGroups returns a part with the first row group of two others.
func twoGroups(t *testing.T, a, b []byte) []byte {
	t.Helper()
	var files [2]*partFile
	for i, data := range [][]byte{a, b} {
		var err error
		if files[i], err = openFile(bytes.NewReader(data), int64(len(data))); err != nil {
			t.Fatal(err)
		}
	}
	data := bytes.Clone(a[:files[0].end])
	meta, group := files[0].meta, files[1].meta.RowGroups[0]
	by := int64(len(data))
	group.Columns = slices.Clone(group.Columns)
	for i := range group.Columns {
		k := &group.Columns[i]
		if k.MetaData.DataPageOffset += by; k.MetaData.DictionaryPageOffset != 0 {
			k.MetaData.DictionaryPageOffset += by
		}
		k.OffsetIndexOffset, k.ColumnIndexOffset = 0, 0
	}
	meta.CreatedBy = "a test"
	meta.RowGroups = append(meta.RowGroups[:1:1], group)
	meta.NumRows = meta.RowGroups[0].NumRows + group.NumRows
	return withFooter(t, append(data, b[:files[1].end]...), &meta)
}

func withFooter(t *testing.T, data []byte, meta *pqformat.FileMetaData) []byte {
	t.Helper()
	footer, err := marshal(meta)
	if err != nil {
		t.Fatal(err)
	}
	return append(append(data, footer...), byte(len(footer)), byte(len(footer)>>8), 0, 0, 'P', 'A', 'R', '1')
}

// A footer that is well formed and says something wrong is an error wherever it is read.
func TestFootersThatLie(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	d := damagedTables(t, rng)["few columns"]
	d.counts = false // the footer alone says it
	group := func(m *pqformat.FileMetaData) *pqformat.RowGroup { return &m.RowGroups[0] }
	chunk := func(m *pqformat.FileMetaData, i int) *pqformat.ColumnMetaData { return &group(m).Columns[i].MetaData }
	for what, lie := range map[string]func(m *pqformat.FileMetaData){
		"nothing":                      func(*pqformat.FileMetaData) {},
		"a column is a list":           func(m *pqformat.FileMetaData) { m.Schema[1].LogicalType.Value = new(pqformat.ListType) },
		"another number of rows":       func(m *pqformat.FileMetaData) { m.NumRows++ },
		"another one, also of a group": func(m *pqformat.FileMetaData) { m.NumRows++; group(m).NumRows++ },
		"more of everything": func(m *pqformat.FileMetaData) {
			m.NumRows, group(m).NumRows = 1<<40, 1<<40
			for i := range group(m).Columns {
				chunk(m, i).NumValues = 1 << 40
			}
		},
		"a group twice":  func(m *pqformat.FileMetaData) { m.RowGroups = append(m.RowGroups, *group(m)); m.NumRows *= 2 },
		"a column twice": func(m *pqformat.FileMetaData) { group(m).Columns[1] = group(m).Columns[0] },
		"the pages of another column": func(m *pqformat.FileMetaData) {
			path := chunk(m, 1).PathInSchema
			*chunk(m, 1), group(m).Columns[1].OffsetIndexOffset = *chunk(m, 0), 0
			chunk(m, 1).PathInSchema = path
		},
		"pages behind the data":        func(m *pqformat.FileMetaData) { chunk(m, 0).DataPageOffset = 1 << 40 },
		"pages before it":              func(m *pqformat.FileMetaData) { chunk(m, 0).DataPageOffset = -1 },
		"more bytes than there are":    func(m *pqformat.FileMetaData) { chunk(m, 0).TotalCompressedSize = 1 << 40 },
		"fewer bytes than a page":      func(m *pqformat.FileMetaData) { chunk(m, 0).TotalUncompressedSize = 10 },
		"an encoding that no page has": func(m *pqformat.FileMetaData) { chunk(m, 0).EncodingStats[0].Encoding = pqformat.DeltaByteArray },
		"a codec that no part has":     func(m *pqformat.FileMetaData) { chunk(m, 0).Codec = pqformat.Gzip },
		"another codec":                func(m *pqformat.FileMetaData) { chunk(m, 2).Codec = pqformat.Zstd },
		"another name":                 func(m *pqformat.FileMetaData) { m.Schema[1].Name = "b" },
		"columns that have NULL":       func(m *pqformat.FileMetaData) { m.Schema[4].RepetitionType.V = pqformat.Required },
		"an index behind the data":     func(m *pqformat.FileMetaData) { group(m).Columns[0].OffsetIndexOffset = 1 << 40 },
		"a long index":                 func(m *pqformat.FileMetaData) { group(m).Columns[0].OffsetIndexLength = 1 << 30 },
		"the index of another column": func(m *pqformat.FileMetaData) {
			group(m).Columns[0].OffsetIndexOffset = group(m).Columns[1].OffsetIndexOffset
		},
		"no columns":                 func(m *pqformat.FileMetaData) { m.Schema = m.Schema[:1] },
		"more columns than it names": func(m *pqformat.FileMetaData) { m.Schema[0].NumChildren.V = 1 << 30 },
		"a group of another place":   func(m *pqformat.FileMetaData) { group(m).Ordinal = 7 },
	} {
		p, err := openFile(bytes.NewReader(d.whole[1]), int64(len(d.whole[1])))
		if err != nil {
			t.Fatal(err)
		}
		lie(&p.meta)
		before := allocated()
		tailed, merged := d.check(t, withFooter(t, bytes.Clone(d.whole[1][:p.end]), &p.meta), what)
		if honest := what == "nothing"; tailed != honest || merged != honest {
			t.Errorf("%s: the end is read %v, merged %v", what, tailed, merged)
		}
		if n := allocated() - before; n > 16<<20 {
			t.Errorf("%s: %d MiB are allocated", what, n>>20)
		}
	}
}

// A footer may say that a list or a text in it is longer than the part. Nothing is allocated for it.
func TestLengthsInAFooter(t *testing.T) {
	const million = "\x80\x80\x40"
	for what, footer := range map[string]string{
		"columns":            "\x15\x04\x19\xfc" + million,
		"name of the writer": "\x15\x04\x58" + "\x80\x80\x80\x10",
		"row groups":         "\x15\x04\x39\xfc" + million,
		"a field of later":   "\x15\x04\xe9\xfc" + million,
	} {
		data := append([]byte("PAR1"+footer+"\x00"), byte(len(footer)+1), 0, 0, 0, 'P', 'A', 'R', '1')
		before := allocated()
		if _, err := openFile(bytes.NewReader(data), int64(len(data))); err == nil {
			t.Errorf("%s: a part is opened", what)
		}
		if n := allocated() - before; n > 1<<20 {
			t.Errorf("%s: %d MiB are allocated", what, n>>20)
		}
	}
}
