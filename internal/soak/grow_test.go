package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

const grownTable = "in.c-soak.grown"

// grownField is a field that versions of a definition have or lack. Row i sends the text i modulo their number, and "NULL" stands
// for the cell NULL.
type grownField struct {
	name  string
	typ   datatype.Type
	sends []string
	cells []string
}

var grownFields = []grownField{
	{"n", datatype.Int64, []string{"9007199254740993", "null", "1e3"}, []string{"9007199254740993", "NULL", "1000"}},
	{"s", datatype.String, []string{`""`, "null", `"null"`, `"a\"\n,b"`}, []string{"", "NULL", "null", "a\"\n,b"}},
	{"d", datatype.Decimal(9, 2), []string{"1.5", `"-0"`, "null"}, []string{"1.50", "0.00", "NULL"}},
	{"j", datatype.JSON, []string{`{"a": [1]}`, "null", `"x"`}, []string{`{"a":[1]}`, "NULL", `"x"`}},
}

// grownSource has the given fields, some of them in another case. The field retyped has a type that the table cannot follow.
func grownSource(rng *rand.Rand, fields []grownField, retyped int) forebay.Source {
	columns := mapping.Columns{mapping.Path("id", "id", mapping.DataType(datatype.Int64)), mapping.Path("made", "made", mapping.DataType(datatype.String))}
	for i, f := range fields {
		name := f.name
		if rng.IntN(3) == 0 {
			name = strings.ToUpper(name)
		}
		if i == retyped {
			f.typ = datatype.Bool
		}
		columns = append(columns, mapping.Path(name, f.name, mapping.DataType(f.typ)))
	}
	rng.Shuffle(len(columns), func(i, j int) { columns[i], columns[j] = columns[j], columns[i] })
	return forebay.Source{
		ID:       "grown",
		Settings: forebay.Settings{Upload: trigger.Conditions{Count: 5, Interval: time.Second, Size: 1 << 20}, Import: trigger.Conditions{Count: 10, Interval: 30 * time.Second, Size: 1 << 20}},
		Sinks:    []forebay.Sink{{ID: "rows", Table: forebay.Table{ID: grownTable, Columns: columns, Extend: true}}},
	}
}

func openGrown(root, name string) (*forebay.Engine, error) {
	tables := dir.TablesWith(filepath.Join(root, "tables"), dir.TablesOptions{MergeTo: 1 << 20})
	return forebay.Open(filepath.Join(root, name), forebay.Options{Target: tables})
}

// growUntilKilled feeds the table from row number first on, with another version of the definition every few rows. It prints the
// number of each row that is stored, and "refused" for each version that the table cannot follow.
func growUntilKilled(root, name string, first int, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, uint64(first)))
	eng, err := openGrown(root, name)
	if err != nil {
		return err
	}
	made := ""
	for i := first; ; i++ {
		if i == first || rng.IntN(4) == 0 {
			var fields []grownField
			for _, at := range rng.Perm(len(grownFields))[:rng.IntN(len(grownFields)+1)] {
				fields = append(fields, grownFields[at])
			}
			retyped := -1
			if i > first && len(fields) > 0 && rng.IntN(4) == 0 {
				retyped = rng.IntN(len(fields))
			}
			if err := eng.Define(context.Background(), grownSource(rng, fields, retyped)); err != nil {
				return err
			}
			if refused := eng.Stats().Sinks[0].Refused; (refused != "") != (retyped >= 0) {
				return fmt.Errorf("a version of which field %d has another type: refused %q", retyped, refused)
			}
			if retyped >= 0 {
				fmt.Println("refused")
			} else {
				made = ","
				for _, f := range fields {
					made += f.name + ","
				}
			}
		}
		body := fmt.Appendf(nil, `{"id":%d,"made":%q`, i, made)
		for _, f := range grownFields {
			body = fmt.Appendf(body, `,%q:%s`, f.name, f.sends[i%len(f.sends)])
		}
		if _, err := eng.Ingest(context.Background(), "grown", mapping.JSON(append(body, '}'))); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

// checkGrown checks every row of the table. Its cells are the fields that it was made with, and NULL under the others. It
// returns how often each number is there.
func checkGrown(t *testing.T, root string) map[int]int {
	t.Helper()
	tables := dir.Tables(filepath.Join(root, "tables"))
	columns, err := tables.Columns(grownTable)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]int{}
	for row, err := range tables.Cells(grownTable) {
		if err != nil {
			t.Fatal(err)
		}
		cells := map[string]string{}
		for i, c := range columns {
			if cells[strings.ToLower(c.Name)] = string(row[i]); row[i] == nil {
				cells[strings.ToLower(c.Name)] = "NULL"
			}
		}
		var id int
		if _, err := fmt.Sscan(cells["id"], &id); err != nil {
			t.Fatal(err)
		}
		seen[id]++
		for _, f := range grownFields {
			want := "NULL"
			if strings.Contains(cells["made"], ","+f.name+",") {
				want = f.cells[id%len(f.cells)]
			}
			if cells[f.name] != want {
				t.Errorf("row %d, made with %s: %s is %q, want %q", id, cells["made"], f.name, cells[f.name], want)
			}
		}
	}
	return seen
}

// Two engines with other versions of a definition all the time feed one table, and are killed again and again.
func TestKillsWhileATableGrows(t *testing.T) {
	if arg, ok := proctest.Child(); ok {
		var root, name string
		var first int
		var seed uint64
		if _, err := fmt.Sscan(arg, &root, &name, &first, &seed); err != nil {
			t.Fatal(err)
		}
		t.Fatal(growUntilKilled(root, name, first, seed))
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	kills := proctest.Kills(t)
	seed := seedtest.Of(t)
	root := t.TempDir()
	// From now on the table keeps all fields, so another type is refused.
	rng := rand.New(rand.NewPCG(seed, 0))
	first, err := openGrown(root, "a")
	if err == nil {
		err = errors.Join(first.Define(t.Context(), grownSource(rng, grownFields, -1)), first.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	const span = 1 << 30 // of the numbers of an engine
	names := []string{"a", "b"}
	stored := make([][]int, len(names))
	refused := make([]int, len(names))
	var engines sync.WaitGroup
	for e, name := range names {
		rng := rand.New(rand.NewPCG(seed, uint64(e)+1))
		engines.Go(func() {
			next := e * span
			for range (kills + e) / len(names) {
				p := proctest.Start(t, t.Name(), fmt.Sprint(root, " ", name, " ", next, " ", seed))
				p.Lines(1+rng.IntN(60), time.Duration(rng.IntN(20_000))*time.Microsecond, func(line string) {
					var i int
					if line == "refused" {
						refused[e]++
					} else if _, err := fmt.Sscan(line, &i); err != nil {
						t.Errorf("engine %s says %q", name, line)
					} else {
						stored[e] = append(stored[e], i)
						next = i + 1
					}
				})
				next++ // the last row may be there although the process did not say so
			}
		})
	}
	engines.Wait()
	if t.Failed() {
		return
	}
	for _, name := range names {
		eng, err := openGrown(root, name)
		if err == nil {
			err = errors.Join(eng.Define(t.Context(), grownSource(rng, grownFields, -1)), eng.FlushAll(t.Context()), eng.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	seen := checkGrown(t, root)
	t.Logf("%d kills, %d changes were refused", kills, refused[0]+refused[1])
	proctest.Check(t, slices.Values(slices.Concat(stored...)), seen)
}
