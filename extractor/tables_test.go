package extractor_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/extractor"
)

// saveTables runs a configuration and returns the files that it wrote, as "name" and content.
func saveTables(t *testing.T, a *api, cfg string, state extractor.State) (map[string]string, extractor.State, error) {
	t.Helper()
	parsed, err := extractor.Parse([]byte(cfg))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out", "tables")
	transport := a.transport()
	defer transport.CloseIdleConnections()
	state, err = extractor.RunTables(t.Context(), parsed, state, dir, extractor.Options{Transport: transport})
	files := make(map[string]string)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		b, readErr := os.ReadFile(filepath.Join(dir, e.Name()))
		if readErr != nil {
			t.Fatal(readErr)
		}
		files[e.Name()] = string(b)
	}
	return files, state, err
}

func checkFiles(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%s is\n%s\nwant\n%s", name, got[name], content)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok && !strings.HasSuffix(name, ".manifest") {
			t.Errorf("there is a file %s:\n%s", name, got[name])
		}
	}
}

// lines joins lines of a file, in which a quote is written as an apostrophe.
func lines(s ...string) string {
	return strings.ReplaceAll(strings.Join(s, "\n")+"\n", "'", `"`)
}

func TestTables(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, config string
		answers      []string
		files        map[string]string
		err          string
	}{
		{
			name: "cells", config: `"jobs": [{"endpoint": "t"}]`,
			answers: []string{`[{"s": "a \"b\",\nc", "i": 5, "t": true, "f": false, "n": null, "r": 0.1, "h": 100.0, "big": 1e14, "small": 0.00001, "e": {}, "l": [], "u": "ü/"}]`},
			files: map[string]string{
				"t":          lines(`'s','i','t','f','n','r','h','big','small','l','u'`, `'a ''b'',`, `c','5','1','','','0.1','100','1.0E+14','1.0E-5','','ü/'`),
				"t.manifest": `{"incremental":false}`,
			},
		},
		{
			name: "bucket and incremental", config: `"outputBucket": "b", "incrementalOutput": true, "jobs": [{"endpoint": "x/y", "dataType": "t"}]`,
			answers: []string{`[{"id": 1}]`},
			files:   map[string]string{"b.t": lines(`'id'`, `'1'`), "b.t.manifest": `{"destination":"in.c-b.t","incremental":true}`},
		},
		{
			name: "generated bucket", config: `"id": "7", "jobs": [{"endpoint": "t"}]`, answers: []string{`[{"id": 1}]`},
			files: map[string]string{"ex-api-generic-7.t": lines(`'id'`, `'1'`), "ex-api-generic-7.t.manifest": `{"destination":"in.c-ex-api-generic-7.t","incremental":false}`},
		},
		{
			name: "links of a list", config: `"jobs": [{"endpoint": "t"}]`, answers: []string{`[{"id":7,"tags":["a","b"]}]`},
			files: map[string]string{
				"t":      lines(`'id','tags'`, `'7','t_de64110614b7d44cd3b9ebcef11e8ce3'`),
				"t_tags": lines(`'data','JSON_parentId'`, `'a','t_de64110614b7d44cd3b9ebcef11e8ce3'`, `'b','t_de64110614b7d44cd3b9ebcef11e8ce3'`),
			},
		},
		{
			name: "links with user data", config: `"userData": {"z": "q"}, "jobs": [{"endpoint": "t"}]`, answers: []string{`[{"id":7,"tags":["a","b"]}]`},
			files: map[string]string{
				"t":      lines(`'id','tags','z'`, `'7','t_4b53d83260860c366524b134aa7a1a11','q'`),
				"t_tags": lines(`'data','JSON_parentId'`, `'a','t_4b53d83260860c366524b134aa7a1a11'`, `'b','t_4b53d83260860c366524b134aa7a1a11'`),
			},
		},
		{
			name: "links in an object", config: `"jobs": [{"endpoint": "t"}]`, answers: []string{`[{"id":7,"box":{"k":1,"l":[1]}}]`},
			files: map[string]string{
				"t":       lines(`'id','box_k','box_l'`, `'7','1','t.box_8c02e5347bc7a9c2838dd99788343805'`),
				"t_box_l": lines(`'data','JSON_parentId'`, `'1','t.box_8c02e5347bc7a9c2838dd99788343805'`),
			},
		},
		{
			name: "columns are the union, in the order of appearance", config: `"jobs": [{"endpoint": "a", "dataType": "t"}, {"endpoint": "b", "dataType": "t", "userData": "u"}]`,
			answers: []string{`[{"a": null, "b": 1}, {"c": {"x": 1}}]`, `[{"b": 2, "d": 3, "c": {"y": 2}, "a": {"z": 4}}, null]`},
			files: map[string]string{
				"t": lines(`'a_z','b','c_x','c_y','d','job_parent_id'`, `'','1','','','',''`, `'','','1','','',''`, `'4','2','','2','3','u'`, `'','','','','','u'`),
			},
		},
		{
			name: "a single value becomes a list", config: `"jobs": [{"endpoint": "t", "dataType": "t"}]`,
			answers: []string{`[{"v": "x"}, {"v": ["y", null]}, {"v": []}, {"v": null}, {}]`},
			files: map[string]string{
				"t": lines(`'v'`, `'`+link("t", `O:8:"stdClass":1:{s:1:"v";s:1:"x";}`)+`'`, `'`+link("t", `O:8:"stdClass":1:{s:1:"v";a:2:{i:0;s:1:"y";i:1;N;}}`)+`'`, `''`, `''`, `''`),
				"t_v": lines(`'data','JSON_parentId'`, `'x','`+link("t", `O:8:"stdClass":1:{s:1:"v";s:1:"x";}`)+`'`,
					`'y','`+link("t", `O:8:"stdClass":1:{s:1:"v";a:2:{i:0;s:1:"y";i:1;N;}}`)+`'`, `'','`+link("t", `O:8:"stdClass":1:{s:1:"v";a:2:{i:0;s:1:"y";i:1;N;}}`)+`'`),
			},
		},
		{
			name: "an object becomes a list, and tables nest", config: `"jobs": [{"endpoint": "t"}]`,
			answers: []string{`[{"o": {"k": 1}}, {"o": [{"k": 2, "l": [3]}]}]`},
			files: map[string]string{
				"t": lines(`'o'`, `'`+link("t", `O:8:"stdClass":1:{s:1:"o";O:8:"stdClass":1:{s:1:"k";i:1;}}`)+`'`,
					`'`+link("t", `O:8:"stdClass":1:{s:1:"o";a:1:{i:0;O:8:"stdClass":2:{s:1:"k";i:2;s:1:"l";a:1:{i:0;i:3;}}}}`)+`'`),
				"t_o": lines(`'k','l','JSON_parentId'`, `'1','','`+link("t", `O:8:"stdClass":1:{s:1:"o";O:8:"stdClass":1:{s:1:"k";i:1;}}`)+`'`,
					`'2','`+link("t.o", row2)+`','`+link("t", `O:8:"stdClass":1:{s:1:"o";a:1:{i:0;O:8:"stdClass":2:{s:1:"k";i:2;s:1:"l";a:1:{i:0;i:3;}}}}`)+`'`),
				"t_o_l": lines(`'data','JSON_parentId'`, `'3','`+link("t.o", row2)+`'`),
			},
		},
		{
			name: "items that are no objects", config: `"jobs": [{"endpoint": "t"}, {"endpoint": "n"}]`, answers: []string{`["x", 2, null, true]`, `[[1, {"a": "/"}], []]`},
			files: map[string]string{
				"t": lines(`'data'`, `'x'`, `'2'`, `''`, `'1'`),
				"n": lines(`'data'`, `'[1,{''a'':''\/''}]'`, `'[]'`),
			},
		},
		{
			name: "names", config: `"jobs": [{"endpoint": "user/{user-id}"}]`, answers: []string{`[{"a b": 1, "a_b": 2, "a": {"b": 3}, "__ü-x__": 4}]`},
			files: map[string]string{"user_user-id": lines(`'a_b','a_b_u0','a_b_u1','-x'`, `'1','2','3','4'`)},
		},
		{
			name: "tables of one name", config: `"jobs": [{"endpoint": "a/b"}, {"endpoint": "a.b"}]`, answers: []string{`[{"x": 1}]`, `[{"x": 2}]`},
			files: map[string]string{"a_b": lines(`'x'`, `'1'`), "a_b_u0": lines(`'x'`, `'2'`)},
		},
		{
			name: "an extra column meets a column of the data", config: `"userData": {"id": "u"}, "jobs": [{"endpoint": "first"}, {"endpoint": "second"}, {"endpoint": "third"}]`,
			answers: []string{`[{"x": 1}]`, `[{"id": 2}]`, `[{"x": 3}]`},
			files: map[string]string{
				"first": lines(`'x','id'`, `'1','u'`), "second": lines(`'id','id_u0'`, `'2','u'`), "third": lines(`'x','id_u0'`, `'3','u'`),
			},
		},
		{
			name: "no rows, no file", config: `"jobs": [{"endpoint": "t"}]`, answers: []string{`[]`}, files: map[string]string{},
		},
		{
			name: "iterations share tables", answers: []string{`[{"x": 1}]`, `[{"y": 2}]`},
			config: `"outputBucket": "b", "q": "0", "jobs": [{"endpoint": "t", "params": {"q": {"attr": "q"}}}]}, "iterations": [{"q": "1"}, {"q": "2"}], "authorization": {"x": 1`,
			files:  map[string]string{"b.t": lines(`'x','y'`, `'1',''`, `'','2'`)},
		},
		{
			name: "text and object", config: `"jobs": [{"endpoint": "t"}]`, answers: []string{`[{"a": {"v": 1}}, {"a": {"v": {"x": 1}}}]`},
			err: `job "a9fa3e8c4c30d8ae0ef0d0ff5c8ce9ab", page 1, endpoint "t", table "t": "t.a.v" is of kind scalar in one place and object in another`,
		},
		{
			name: "mixed list", config: `"jobs": [{"endpoint": "t"}]`, answers: []string{`[{"v": [1, {"x": 1}]}]`}, err: `"t.v" is of kind scalar in one place and object in another`,
		},
		{
			name: "mapping", answers: []string{`[{"id": 1, "user": {"name": "n", "tags": ["x", "y"]}, "items": [{"k": "a"}, {"k": "b"}], "raw": {"a": "/"}}, {"id": 2}]`},
			config: `"outputBucket": "b", "userData": {"run": "r"}, "jobs": [{"endpoint": "t"}, {"endpoint": "none", "dataType": "none"}], "mappings": {
				"none": {"id": "id"},
				"t": {
					"id": {"type": "column", "mapping": {"destination": "id", "primaryKey": true}},
					"user.name": {"mapping": {"destination": "user"}},
					"run": {"type": "user", "mapping": {"destination": "run_id", "primaryKey": true}},
					"raw": {"type": "column", "forceType": true, "mapping": {"destination": "raw"}},
					"items": {"type": "table", "destination": "rows", "tableMapping": {"k": {"mapping": {"destination": "key"}}}},
					"user.tags": {"type": "table", "destination": "tags", "parentKey": {"destination": "owner", "primaryKey": true}, "tableMapping": {"data": {"mapping": {"destination": "tag"}}}}
				}}`,
			files: map[string]string{
				"b.t":             lines(`'id','user','run_id','raw'`, `'1','n','r','{''a'':''\/''}'`, `'2','','r',''`),
				"b.t.manifest":    `{"destination":"in.c-b.t","incremental":false,"primary_key":["id","run_id"]}`,
				"b.rows":          lines(`'key','t_pk'`, `'a','1,r'`, `'b','1,r'`),
				"b.tags":          lines(`'tag','owner'`, `'x','1,r'`, `'y','1,r'`),
				"b.tags.manifest": `{"destination":"in.c-b.tags","incremental":false,"primary_key":["owner"]}`,
				"b.none":          lines(`'id'`),
			},
		},
		{
			name: "mapping without a primary key", answers: []string{`[{"id": 1, "items": [{"k": "a", "subs": {"x": 5}}], "other": "o"}, {"id": 2, "items": []}]`, `[{"id": 3, "items": {"k": "b"}}]`},
			config: `"jobs": [{"endpoint": "t"}, {"endpoint": "u", "dataType": "t", "userData": {"run": "r"}}], "mappings": {"t": {
				"items": {"type": "table", "destination": "rows", "tableMapping": {"k": "key", "subs": {"type": "table", "destination": "deep", "parentKey": {"primaryKey": true}, "tableMapping": {"x": "x"}}}},
				"id": "id",
				"other": {"type": "table", "destination": "more", "parentKey": {"disable": true}, "tableMapping": {"data": "data"}}
			}}`,
			files: map[string]string{
				"t":             lines(`'rows','id'`, `'`+md5Text(mapped1)+`','1'`, `'','2'`, `'`+md5Text(mapped3)+`','3'`),
				"rows":          lines(`'key','deep','t_pk'`, `'a','`+md5Text(mappedItem)+`','`+md5Text(mapped1)+`'`, `'b','','`+md5Text(mapped3)+`'`),
				"deep":          lines(`'x','rows_pk'`, `'5','`+md5Text(mappedItem)+`'`),
				"deep.manifest": `{"incremental":false,"primary_key":["rows_pk"]}`,
				"more":          lines(`'data'`, `'o'`),
			},
		},
		{
			name:    "mapping of items that are no objects",
			config:  `"jobs": [{"endpoint": "t"}, {"endpoint": "u"}], "mappings": {"t": {"0": "name", "1.x": "x", "2": {"type": "table", "destination": "marks", "tableMapping": {".": "mark", "0": "first"}}}, "u": {".": "value", "data": "again"}}`,
			answers: []string{`[["a", {"x": 1}, ["p", ["q"]]], ["b"]]`, `[1, null, "z"]`},
			err:     `table "t": the value at "." is a list; map it to a table, or set forceType`,
		},
		{
			name:    "mapping of lists and scalars",
			config:  `"jobs": [{"endpoint": "t"}, {"endpoint": "u"}], "mappings": {"t": {"0": {"mapping": {"destination": "name", "primaryKey": true}}, "1.x": "x", "2": {"type": "table", "destination": "marks", "tableMapping": {".": {"mapping": {"destination": "mark"}, "forceType": true}, "0": "first"}}}, "u": {".": "value", "data": "again"}}`,
			answers: []string{`[["a", {"x": 1}, ["p", ["q"]]], ["b"]]`, `[1, null, "z"]`},
			files: map[string]string{
				"t": lines(`'name','x'`, `'a','1'`, `'b',''`), "marks": lines(`'mark','first','t_pk'`, `'p','','a'`, `'[''q'']','q','a'`),
				"u": lines(`'value','again'`, `'1','1'`, `'',''`, `'z','z'`),
			},
		},
		{
			name: "mapping of a table with the form of its owner",
			config: `"jobs": [{"endpoint": "t"}], "mappings": {"t": {"id": {"mapping": {"destination": "id", "primaryKey": true}}, "replies": {"type": "table", "destination": "replies", "parentKey": {"destination": "to"}},
				"tags": {"type": "table", "destination": "tags", "parentKey": {"destination": "of"}, "tableMapping": {".": "tag"}}, "more": {"type": "table", "destination": "more"}}}`,
			answers: []string{`[{"id": 1, "tags": ["x"], "replies": [{"id": 2, "replies": [{"id": 3, "tags": ["y"], "more": {"id": 5, "replies": {"id": 6}}}]}, {"id": 4}]}]`},
			files: map[string]string{
				"t": lines(`'id'`, `'1'`), "replies": lines(`'id','to'`, `'2','1'`, `'3','2'`, `'6','5'`, `'4','1'`), "more": lines(`'id','t_pk'`, `'5','3'`),
				"tags": lines(`'tag','of'`, `'y','3'`, `'x','1'`),
			},
		},
		{
			name: "mapping of a collection", answers: []string{`[{"id": {"x": 1}}]`}, config: `"jobs": [{"endpoint": "t"}], "mappings": {"t": {"id": "id"}}`,
			err: `table "t": the value at "id" is an object`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			answers := append(slices.Clone(test.answers), `[]`)
			files, _, err := saveTables(t, newAPI(t, answers...), config("", test.config), extractor.State{})
			if test.err != "" {
				if want := test.err; strings.HasPrefix(want, "job") {
					_, want, _ = strings.Cut(want, ", page")
					checkError(t, err, want)
				} else {
					checkError(t, err, want)
				}
				if extractor.ExitStatus(err) != 1 {
					t.Errorf("exit status %d, want 1", extractor.ExitStatus(err))
				}
				if len(files) > 0 {
					t.Errorf("there are files: %v", files)
				}
				return
			}
			checkError(t, err, "")
			checkFiles(t, files, test.files)
		})
	}
}

// row2 is the second row of a nested table, with its extra column.
var row2 = `O:8:"stdClass":3:{s:1:"k";i:2;s:1:"l";a:1:{i:0;i:3;}s:13:"JSON_parentId";s:34:"` +
	link("t", `O:8:"stdClass":1:{s:1:"o";a:1:{i:0;O:8:"stdClass":2:{s:1:"k";i:2;s:1:"l";a:1:{i:0;i:3;}}}}`) + `";}`

// Rows of mapped tables without a primary key as their checksums are computed.
const (
	mappedItem = `O:8:"stdClass":2:{s:1:"k";s:1:"a";s:4:"subs";O:8:"stdClass":1:{s:1:"x";i:5;}}`
	mapped1    = `O:8:"stdClass":3:{s:2:"id";i:1;s:5:"items";a:1:{i:0;` + mappedItem + `}s:5:"other";s:1:"o";}`
	mapped3    = `O:8:"stdClass":2:{s:2:"id";i:3;s:5:"items";O:8:"stdClass":1:{s:1:"k";s:1:"b";}}` + `a:1:{s:3:"run";s:1:"r";}`
)

func TestColumnsOfTheState(t *testing.T) {
	t.Parallel()
	cfg := config("", `"outputBucket": "b", "jobs": [{"endpoint": "t"}]`)
	_, state, err := saveTables(t, newAPI(t, `[{"a": 1, "l": ["x"]}]`), cfg, extractor.State{})
	checkError(t, err, "")
	files, state, err := saveTables(t, newAPI(t, `[{"z": 1, "l": "y"}]`), cfg, state)
	checkError(t, err, "")
	checkFiles(t, files, map[string]string{
		"b.t":   lines(`'a','l','z'`, `'','`+link("t", `O:8:"stdClass":2:{s:1:"z";i:1;s:1:"l";s:1:"y";}`)+`','1'`),
		"b.t_l": lines(`'data','JSON_parentId'`, `'y','`+link("t", `O:8:"stdClass":2:{s:1:"z";i:1;s:1:"l";s:1:"y";}`)+`'`),
	})
	// A state that belongs to nothing here is refused, not guessed.
	state.Columns = []byte(`{"b": {"t": {"kind": "new"}}}`)
	_, _, err = saveTables(t, newAPI(t, `[]`), cfg, state)
	checkError(t, err, "columns of the state")
}

// TestColumnsOfAPublishedState begins with the columns in a state that the published extractor wrote, in the form of newer and of older versions.
func TestColumnsOfAPublishedState(t *testing.T) {
	t.Parallel()
	const tree = `{"data": {"_t": {"nodeType": "array", "[]": {"nodeType": "object", "headerNames": "data", "_a": {"nodeType": "scalar", "headerNames": "a"}, "_run": {"nodeType": "scalar", "type": "parent"},
		"_o": {"nodeType": "object", "_x": {"nodeType": "null"}}, "_l": {"nodeType": "array", "[]": {"nodeType": "scalar"}}, "_odd": {"nodeType": "new"}}}}, "parent_aliases": {}}`
	const flat = `{"t": {"a": "scalar", "o": "object", "l": "arrayOfscalar", "odd": "new"}, "t.o": {"x": "NULL"}, "t.l": {"data": "scalar"}}`
	for name, text := range map[string]string{
		"a tree":           `{"json_parser.struct": ` + tree + `, "json_parser.structVersion": 3, "time": {"previousStart": 7}}`,
		"a tree in custom": `{"custom": {"json_parser.struct": ` + tree + `, "time": {"previousStart": 7}}}`,
		"kinds by path":    `{"custom": {"json_parser.struct": ` + flat + `, "json_parser.structVersion": 2, "time": {"previousStart": 7}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var state extractor.State
			if err := json.Unmarshal([]byte(text), &state); err != nil {
				t.Fatal(err)
			}
			again, err := json.Marshal(state) // as a program saves it after a run that failed
			checkError(t, err, "")
			state = extractor.State{}
			checkError(t, json.Unmarshal(again, &state), "")
			var log strings.Builder
			cfg, err := extractor.Parse([]byte(config("", `"outputBucket": "b", "jobs": [{"endpoint": "t"}]`)))
			checkError(t, err, "")
			tables, err := extractor.NewTables(cfg, state, slog.New(slog.NewTextHandler(&log, nil)))
			checkError(t, err, "")
			checkError(t, tables.Close(), "")
			if !strings.Contains(log.String(), "column=t.odd") {
				t.Errorf("the log does not say that t.odd is left out:\n%s", log.String())
			}
			files, next, err := saveTables(t, newAPI(t, `[{"z": 1, "l": "y"}]`), config("", `"outputBucket": "b", "jobs": [{"endpoint": "t", "params": {"since": {"time": "previousStart"}}}]`), state)
			checkError(t, err, "")
			checkFiles(t, files, map[string]string{
				"b.t":   lines(`'a','o_x','l','z'`, `'','','`+link("t", `O:8:"stdClass":2:{s:1:"z";i:1;s:1:"l";s:1:"y";}`)+`','1'`),
				"b.t_l": lines(`'data','JSON_parentId'`, `'y','`+link("t", `O:8:"stdClass":2:{s:1:"z";i:1;s:1:"l";s:1:"y";}`)+`'`),
			})
			if strings.Contains(string(next.Columns), "json_parser") || !strings.Contains(string(next.Columns), `"z"`) {
				t.Errorf("the next state has the columns %s", next.Columns)
			}
		})
	}
}

func TestTablesKeepTypes(t *testing.T) {
	t.Parallel()
	// A float stays a float on its way through the temporary file, which the checksum shows.
	files, _, err := saveTables(t, newAPI(t, `[{"f": 5.0, "l": [1]}]`), config("", `"jobs": [{"endpoint": "t"}]`), extractor.State{})
	checkError(t, err, "")
	if want := link("t", `O:8:"stdClass":2:{s:1:"f";d:5;s:1:"l";a:1:{i:0;i:1;}}`); !strings.Contains(files["t"], want) {
		t.Errorf("got %s\nwant %s", files["t"], want)
	}
}

func TestTablesOfAnotherConfiguration(t *testing.T) {
	t.Parallel()
	cfg, err := extractor.Parse([]byte(config("", `"jobs": [{"endpoint": "t"}]`)))
	checkError(t, err, "")
	tables, err := extractor.NewTables(cfg, extractor.State{}, nil)
	checkError(t, err, "")
	defer tables.Close()
	checkError(t, tables.Add(context.Background(), &extractor.Page{Bucket: "other"}), "another configuration")
}

// TestTemporaryFile leaves nothing that a killed process would leave.
func TestTemporaryFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	cfg, err := extractor.Parse([]byte(config("", `"jobs": [{"endpoint": "t"}]`)))
	checkError(t, err, "")
	tables, err := extractor.NewTables(cfg, extractor.State{}, nil)
	checkError(t, err, "")
	entries, err := os.ReadDir(dir)
	checkError(t, err, "")
	if len(entries) > 0 && runtime.GOOS != "windows" {
		t.Errorf("there is a file %s", entries[0].Name())
	}
	checkError(t, tables.Close(), "")
	if entries, _ = os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("there is a file %s after Close", entries[0].Name())
	}
}

// TestNamesOfTheState keeps the tables of data types apart that have one name, whichever of them has rows in a run.
func TestNamesOfTheState(t *testing.T) {
	t.Parallel()
	cfg, err := extractor.Parse([]byte(config("", `"outputBucket": "b", "jobs": [{"endpoint": "a/b"}, {"endpoint": "a.b"}, {"endpoint": "a_b", "dataType": "a_b"}, {"endpoint": "c"}], "mappings": {"a_b": {"x": "x"}}`)))
	checkError(t, err, "")
	dir := t.TempDir()
	abandoned, current, other := filepath.Join(dir, ".extract-1"), filepath.Join(dir, ".extract-2"), filepath.Join(dir, "b.other")
	for _, path := range []string{abandoned, current, other} {
		checkError(t, os.Mkdir(path, 0o700), "")
	}
	long := time.Now().Add(-25 * time.Hour)
	checkError(t, os.Chtimes(abandoned, long, long), "")
	var state extractor.State
	for i, run := range []struct {
		answers []string
		files   map[string]string
	}{
		{
			[]string{`[{"x": 1, "l": [1]}]`, `[{"x": 2, "l": [2]}]`, `[]`, `[{"x": 3}]`},
			map[string]string{"b.a_b": `'x'`, "b.a_b_u0": `'x','l' '1'`, "b.a_b_u1": `'x','l' '2'`, "b.a_b_l": `'data','JSON_parentId' '1'`, "b.a_b_l_u0": `'data','JSON_parentId' '2'`, "b.c": `'x' '3'`},
		},
		{[]string{`[]`, `[{"x": 4, "l": [4]}]`, `[{"x": 5}]`, `[]`}, map[string]string{"b.a_b": `'x' '5'`, "b.a_b_u1": `'x','l' '4'`, "b.a_b_l_u0": `'data','JSON_parentId' '4'`}},
		{[]string{`[{"x": 6, "l": [6]}]`, `[]`, `[]`, `[]`}, map[string]string{"b.a_b": `'x'`, "b.a_b_u0": `'x','l' '6'`, "b.a_b_l": `'data','JSON_parentId' '6'`}},
	} {
		a := newAPI(t, run.answers...)
		transport := a.transport()
		state, err = extractor.RunTables(t.Context(), cfg, state, dir, extractor.Options{Transport: transport})
		transport.CloseIdleConnections()
		checkError(t, err, "")
		got := make(map[string]string)
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if b, err := os.ReadFile(filepath.Join(dir, e.Name())); err == nil && !strings.HasSuffix(e.Name(), ".manifest") {
				rows := strings.Split(strings.TrimSuffix(strings.ReplaceAll(string(b), `"`, "'"), "\n"), "\n")
				if len(rows) > 1 {
					first, _, _ := strings.Cut(rows[1], ",")
					rows[0] += " " + first
				}
				got[e.Name()] = rows[0]
			}
		}
		if !maps.Equal(got, run.files) {
			t.Errorf("after run %d there are\n%v\nwant\n%v", i, got, run.files)
		}
	}
	if _, err := os.Stat(abandoned); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of a process that was killed is still there: %v", err)
	}
	for _, path := range []string{current, other} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}
