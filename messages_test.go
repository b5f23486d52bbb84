package forebay_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/messagetest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// Every mistake of a program gets an error that names the thing, its place and the next step.
func TestMessagesOfMistakes(t *testing.T) {
	type engine = *forebay.Engine
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	must(t, os.WriteFile(file, []byte("no folder"), 0o600))
	e, _ := openMemory(t, func(o *forebay.Options) { o.MaxRowBytes, o.MaxSources = 200, 2 })
	mustDefine(t, e, events())
	mustDefine(t, e, forebay.Source{ID: "off", Disabled: true})
	closed, err := forebay.Open(filepath.Join(folder, "closed"), forebay.Options{Target: dir.Tables(filepath.Join(folder, "none"))})
	if err == nil {
		err = closed.Close()
	}
	must(t, err)
	tables := filepath.Join(folder, "tables")
	disk := openFolder(t, filepath.Join(folder, "data"), forebay.Options{Target: dir.Tables(tables)})
	shop := grows(typedPath("id", datatype.Int64), mapping.Body("body"))
	shop.Sinks[0].Table.Extend = false
	mustDefine(t, disk, shop)
	onFile := openFolder(t, filepath.Join(folder, "other"), forebay.Options{Target: dir.Tables(file)})

	once := func(key, content string) error {
		_, err := e.IngestOnce(t.Context(), "web", forebay.Once{Key: key, Content: []byte(content)}, []*mapping.Record{mapping.JSON([]byte(`{"id":1,"user":{"name":"x"}}`))})
		return err
	}
	must(t, once("k1", "a"))
	open := func(dir string, o forebay.Options) error {
		e, err := forebay.Open(dir, o)
		if err == nil {
			err = errors.Join(errors.New("opened"), e.Close())
		}
		return err
	}
	ingest := func(e engine, source string, r *mapping.Record) error {
		_, err := e.Ingest(t.Context(), source, r)
		return err
	}
	compile := func(change func(*forebay.Source)) error {
		_, err := forebay.Compile(events(change), forebay.Options{})
		return err
	}
	column := func(c mapping.Column) error {
		return compile(func(s *forebay.Source) { s.Sinks[1].Table.Columns = mapping.Columns{c} })
	}
	one := func(c mapping.Column, r *mapping.Record) error {
		m, err := mapping.Compile(mapping.Columns{c, mapping.Body("body")}, mapping.Options{})
		if err == nil {
			_, err = m.AppendRow(nil, r)
		}
		return err
	}
	for _, tt := range []struct {
		mistake string
		err     error
		want    messagetest.Want
	}{
		{"Open of a file", open(file, forebay.Options{Target: dir.Tables(tables)}), messagetest.Want{What: "is a file, not a folder", Where: file, Next: "choose another folder"}},
		{"Open of an open folder", open(filepath.Join(folder, "data"), forebay.Options{Target: dir.Tables(tables)}), messagetest.Want{What: "in use by another engine", Where: filepath.Join(folder, "data"), Next: "close that one or choose another folder"}},
		{"Open without a folder", open("", forebay.Options{}), messagetest.Want{What: `has no name`, Where: `the folder`, Next: `name a data directory`}},
		{"Open with wrong options", open(filepath.Join(folder, "x"), forebay.Options{Target: dir.Tables(tables), MaxRowBytes: -1}), messagetest.Want{What: `-1`, Where: `MaxRowBytes`, Next: `allowed is 1 to 67108864`}},
		{"Open with a wrong tuning", open(filepath.Join(folder, "x"), forebay.Options{Target: dir.Tables(tables), Buffer: buffer.Tuning{SyncInterval: -1}}), messagetest.Want{What: `-1ns`, Where: `SyncInterval`, Next: `the least is 1ms`}},
		{"Define above MaxSources", e.Define(t.Context(), forebay.Source{ID: "third"}), messagetest.Want{What: `too many sources`, Where: `source "third"`, Next: `remove a source`}},
		{"Define with a table path that is a file", onFile.Define(t.Context(), shop), messagetest.Want{What: `is a file, not a folder`, Where: file, Next: `choose another folder`}},
		{"Define with one column more", disk.Define(t.Context(), func() forebay.Source {
			s := grows(typedPath("id", datatype.Int64), mapping.Body("body"), typedPath("m", datatype.String))
			s.Sinks[0].Table.Extend = false
			return s
		}()), messagetest.Want{What: `the table has no "m"`, Where: `sink "shop/orders"`, Next: `or set extend so that the table accepts them`}},
		{"Define with another type", disk.Define(t.Context(), func() forebay.Source {
			s := grows(typedPath("id", datatype.String), mapping.Body("body"))
			s.Sinks[0].Table.Extend = false
			return s
		}()), messagetest.Want{What: `the column "id" is string in the mapping and int64 in the table`, Where: `table "in.c-shop.orders"`, Next: `or these columns the types of the table`}},
		{"Compile with a wrong source id", compile(func(s *forebay.Source) { s.ID = "Web!" }), messagetest.Want{What: `"Web!"`, Where: `source "Web!": ID`, Next: `only a-z, 0-9`}},
		{"Compile with two equal sinks", compile(func(s *forebay.Source) { s.Sinks[1].ID = "users" }), messagetest.Want{What: `used twice`, Where: `sink "users"`, Next: `give each sink its own`}},
		{"Compile without a table", compile(func(s *forebay.Source) { s.Sinks[1].Table.ID = "" }), messagetest.Want{What: `Table.ID is empty`, Where: `sink "raw"`, Next: `name the table`}},
		{"Compile without columns", compile(func(s *forebay.Source) { s.Sinks[1].Table.Columns = nil }), messagetest.Want{What: `not 0`, Where: `sink "raw": columns`, Next: `1 to 100 columns`}},
		{"Compile with a negative condition", compile(func(s *forebay.Source) { s.Sinks[1].Settings.Import.Count = -1 }), messagetest.Want{What: `-1 is below the minimum`, Where: `sink "raw": Settings: Import.Count`, Next: `use 1 to 10000000`}},
		{"Compile with a long interval", compile(func(s *forebay.Source) { s.Settings.Upload = trigger.Conditions{Interval: time.Hour} }), messagetest.Want{What: `1h0m0s is above the maximum`, Where: `Settings: Upload.Interval`, Next: `use 1s to 30m0s`}},
		{"Compile with an unknown target", compile(func(s *forebay.Source) { s.Sinks[1].Table.Target = "lake" }), messagetest.Want{What: `"lake", but the engine has no named targets`, Where: `sink "raw": Table.Target`, Next: `set Options.Targets`}},
		{"Compile with an unknown type", column(func() mapping.Column { c := mapping.Path("a", "b"); c.DataType = "integer"; return c }()), messagetest.Want{What: `"integer" is not a data type`, Where: `column 1 ("a")`, Next: `use string, bool, int64`}},
		{"Compile with an unknown variable in a template", column(mapping.Template("t", "'a' + x")), messagetest.Want{What: `unknown variable: x`, Where: `sink "raw": column 1 ("t"): template.content:1:7`, Next: `write Body("x") for a field`}},
		{"Compile with half a template", column(mapping.Template("t", "1 +")), messagetest.Want{What: `Unexpected end of file`, Where: `column 1 ("t"): template.content:1:4`, Next: `correct the jsonnet`}},
		{"Compile with an unknown function of std", column(mapping.Template("t", "std.nope(1)")), messagetest.Want{What: `no member "nope"`, Where: `column 1 ("t"): template.content:1:1`, Next: `use a function of jsonnet`}},
		{"Compile with an import in a template", column(mapping.Template("t", "import 'x'")), messagetest.Want{What: `import is not available`, Where: `column 1 ("t"): template.content:1:1`, Next: `write its content into the template`}},
		{"Compile with a wrong time format", column(mapping.Template("t", "Now('%Q')")), messagetest.Want{What: `'%Q' was not found`, Where: `column 1 ("t"): template.content:1:1`, Next: `such as %Y-%m-%d`}},
		{"Compile with a bracket in a path", column(mapping.Path("p", "a[")), messagetest.Want{What: `'[' without ']'`, Where: `sink "raw": column 1 ("p"): path:2`, Next: `write an index or a quoted key`}},
		{"Compile with a wrong index in a path", column(mapping.Path("p", "a[b]")), messagetest.Want{What: `no index or quoted key`, Where: `column 1 ("p"): path:3`, Next: `like [0] or ["a.b"]`}},
		{"Compile with a backslash at the end of a path", column(mapping.Path("p", `a\`)), messagetest.Want{What: `a backslash must be followed by a character`, Where: `column 1 ("p"): path:2`, Next: `a backslash in a name is`}},
		{"Compile with a column without a name", column(mapping.Path("", "a")), messagetest.Want{What: `must not be empty`, Where: `column 1 (""): name`, Next: `name the column of the table`}},
		{"Compile with a required column without a type", column(mapping.Path("p", "a", mapping.Required())), messagetest.Want{What: `applies only to columns with a dataType`, Where: `column 1 ("p"): required`, Next: `remove it`}},
		{"Compile with DefaultOnNull without a default", column(mapping.Path("p", "a", mapping.DefaultOnNull())), messagetest.Want{What: `needs a defaultValue`, Where: `column 1 ("p"): defaultOnNull`, Next: `set one, or remove it`}},
		{"Compile with one column that may be NULL", column(typedPath("n", datatype.Int64)), messagetest.Want{What: `cannot be nullable`, Where: `column 1 ("n"): required`, Next: `set required, or add a column`}},
		{"Compile with an unknown split", compile(func(s *forebay.Source) { s.Split = "csv" }), messagetest.Want{What: `"csv"`, Where: `source "web": Split`, Next: `must be "array", "lines" or empty`}},
		{"Define with an archive that the engine does not have", e.Define(t.Context(), events(func(s *forebay.Source) { s.Archive = &forebay.ArchiveSettings{} })), messagetest.Want{What: `this engine has no archive`, Where: `source "web"`, Next: `open the engine with one`}},
		{"Ingest at an unknown source", ingest(e, "wbe", mapping.JSON([]byte(`{}`))), messagetest.Want{What: `unknown source`, Where: `"wbe"`, Next: `define it first, or correct the id`}},
		{"Ingest at a disabled source", ingest(e, "off", mapping.JSON([]byte(`{}`))), messagetest.Want{What: `is disabled`, Where: `"off"`, Next: `define it without Disabled`}},
		{"Ingest after Close", ingest(closed, "web", mapping.JSON([]byte(`{}`))), messagetest.Want{What: `is closed`, Where: `the engine`, Next: `open it again`}},
		{"Ingest of a large row", ingest(e, "web", mapping.JSON([]byte(`{"id":1,"user":{"name":"`+strings.Repeat("x", 300)+`"}}`))), messagetest.Want{What: `the row has 307 bytes`, Where: `sink "users" of source "web"`, Next: `send a smaller record`}},
		{"Ingest of nil", ingest(e, "web", nil), messagetest.Want{What: `is nil`, Where: `the record`, Next: `mapping.JSON(body)`}},
		{"Ingest without a field", ingest(e, "web", mapping.JSON([]byte(`{"id":1}`))), messagetest.Want{What: `has no member "user"`, Where: `column "user": path "user.name"`, Next: `set a default`}},
		{"Ingest of a body without a format", ingest(e, "web", &mapping.Record{Body: []byte(`{"id":1}`)}), messagetest.Want{What: `has no fields`, Where: `column "id"`, Next: `set Format: mapping.FormatJSON`}},
		{"Ingest of JSON as a form", ingest(e, "web", &mapping.Record{Body: []byte(`{"id":1}`), Format: mapping.FormatForm}), messagetest.Want{What: `read as a form`, Where: `path "id"`, Next: `send Content-Type: application/json`}},
		{"Ingest of half a body", ingest(e, "web", mapping.JSON([]byte(`{"id":1`))), messagetest.Want{What: `not valid JSON: unexpected end at byte 7`, Where: `sink "users" of source "web": record rejected: column "id"`, Next: `send the whole JSON value`}},
		{"Ingest of text as JSON", ingest(e, "web", mapping.JSON([]byte(`{id:1}`))), messagetest.Want{What: `not valid JSON: expected a key at byte 1`, Where: `sink "users" of source "web": record rejected: column "id"`, Next: `correct it there`}},
		{"Remove of an unknown source", e.Remove(t.Context(), "wbe"), messagetest.Want{What: `unknown source`, Where: `"wbe"`, Next: `correct the id`}},
		{"Map a header that is absent", one(mapping.Template("t", "Header('X-A')"), mapping.JSON([]byte(`{}`))), messagetest.Want{What: `no such header`, Where: `column "t": 1:1`, Next: `give a default as the second argument`}},
		{"Map with too much work", one(mapping.Template("t", "std.range(1, 1e9)"), mapping.JSON([]byte(`{}`))), messagetest.Want{What: `needs more than 200004 steps`, Where: `column "t": 1:1`, Next: `simplify the template`}},
		{"Map a large number into int64", one(typedPath("n", datatype.Int64), mapping.JSON([]byte(`{"n":1e30}`))), messagetest.Want{What: `"1e30" is out of the range of int64`, Where: `column "n"`, Next: `send another value`}},
		{"Map text into int64", one(typedPath("n", datatype.Int64), mapping.JSON([]byte(`{"n":"x"}`))), messagetest.Want{What: `"x" is not a number`, Where: `column "n"`, Next: `in decimal digits`}},
		{"Map text into a timestamp", one(typedPath("n", datatype.Timestamp), mapping.JSON([]byte(`{"n":"yesterday"}`))), messagetest.Want{What: `"yesterday" is not a time`, Where: `column "n"`, Next: `as 2006-01-02T15:04:05Z`}},
		{"IngestOnce without a key", once("", "a"), messagetest.Want{What: `is empty`, Where: `the key of the call`, Next: `set Once.Key`}},
		{"IngestOnce with other content", once("k1", "b"), messagetest.Want{What: `used for other content`, Where: `source "web", key "k1"`, Next: `use a new key`}},
		{"Flush of an unknown source", e.Flush(t.Context(), "wbe"), messagetest.Want{What: `unknown source`, Where: `"wbe"`, Next: `define it first`}},
		{"Flush of an unknown sink", e.Flush(t.Context(), "web", "usrs"), messagetest.Want{What: `unknown sink`, Where: `"usrs" of source "web"`, Next: `correct the id`}},
		{"Replay without an archive", func() error {
			_, err := e.Sink("web", "users").Replay(t.Context(), forebay.ReplayOptions{Run: "r"})
			return err
		}(), messagetest.Want{What: `keeps no raw records`, Where: `the engine`, Next: `set Options.Archive`}},
		{"Replay with wrong options", forebay.ReplayOptions{}.Validate(), messagetest.Want{What: `is empty`, Where: `ReplayOptions.Run`, Next: `choose a name`}},
		{"Shadow with wrong options", forebay.ShadowOptions{For: 25 * time.Hour}.Validate(), messagetest.Want{What: `is 25h0m0s`, Where: `ShadowOptions.For`, Next: `allowed is up to 24h0m0s`}},
		{"Shadow of an unknown sink", func() error {
			_, err := e.Sink("web", "usrs").Shadow(t.Context(), forebay.Sink{ID: "usrs", Table: events().Sinks[0].Table}, forebay.ShadowOptions{})
			return err
		}(), messagetest.Want{What: `unknown sink`, Where: `"usrs" of source "web"`, Next: `change the definition, or correct the id`}},
		{"Forget of a defined source", e.Forget(t.Context(), "web"), messagetest.Want{What: `it is defined`, Where: `source "web"`, Next: `remove it first`}},
		{"Inspect of a missing folder", func() error {
			_, err := forebay.Inspect(filepath.Join(folder, "nope"), buffer.InspectOptions{})
			return err
		}(), messagetest.Want{What: `is not a data directory`, Where: `/nope`, Next: `name the folder that an engine has opened`}},
		{"Inspect of an open folder", func() error {
			_, err := forebay.Inspect(filepath.Join(folder, "data"), buffer.InspectOptions{})
			return err
		}(), messagetest.Want{What: `in use by another engine`, Where: `/data/local`, Next: `close that one`}},
	} {
		if tt.err == nil {
			t.Errorf("%s\ngot      no error\nwant     one", tt.mistake)
			continue
		}
		messagetest.Check(t, tt.mistake, tt.err.Error(), tt.want)
	}
}

func openFolder(t *testing.T, folder string, o forebay.Options) *forebay.Engine {
	t.Helper()
	e, err := forebay.Open(folder, o)
	must(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e
}
