package flatten

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/extractor/internal/tree"
	"github.com/forebay/forebay/internal/fuzztest"
)

func TestSafeName(t *testing.T) {
	long := strings.Repeat("abcdefghij", 7)
	for in, want := range map[string]string{
		"user/{user-id}": "user_user-id", "a.b": "a_b", "__x__": "x", "a - b": "a_-_b", "ü": "empty", "": "empty", "Ab9-": "Ab9-",
		long[:64]: long[:64], long: "a925576942e94b2ef57a066101b48876_",
	} {
		got := SafeName(in)
		if in == long {
			if len(got) != 64 || !strings.HasSuffix(long, got[33:]) || got[32] != '_' {
				t.Errorf("a long name becomes %q", got)
			}
		} else if got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// tablesOf runs both passes over items.
func tablesOf(items []tree.Node, known tree.Node) (map[string][][]string, *Set, error) {
	files := make(map[string]*bytes.Buffer)
	s := NewSet(func(name string) (io.Writer, error) {
		if files[name] != nil {
			return nil, errors.New("a table was opened twice")
		}
		files[name] = new(bytes.Buffer)
		return files[name], nil
	})
	if err := s.Restore(known); err != nil {
		return nil, nil, err
	}
	extra := []tree.Member{{Key: "parent_id", Value: tree.OfInt(1)}}
	for _, item := range items {
		if _, err := s.Learn("t", item, extra); err != nil {
			return nil, nil, err
		}
	}
	for _, item := range items {
		if err := s.Write("t", item, extra); err != nil {
			return nil, nil, err
		}
	}
	if _, err := s.Finish(); err != nil {
		return nil, nil, err
	}
	tables := make(map[string][][]string)
	for name, b := range files {
		rows, err := csv.NewReader(b).ReadAll() // refuses lines of another length than the first
		if err != nil {
			return nil, nil, err
		}
		tables[name] = rows
	}
	return tables, s, nil
}

// FuzzSet checks properties of all data that fits tables. Every line has the columns of its header, every item has a
// row, every row of a list names a row that owns it, and the columns come out the same when they are known before.
func FuzzSet(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, s := range []string{
		`[{"a": 1, "l": [1, {"x": 1}]}]`, `[{"a": [{"b": [{"c": "\"\n,"}]}, {"b": {"c": 2}}]}, {"a": null}, 5]`, `[null, {"": {"": []}}, {"x_y": 1, "x": {"y": 2}}]`,
		`[{"o": {}}, {"o": {"k": [[1], [2]]}}]`, `["a", 1, null, [1]]`, `[{"JSON_parentId": 1, "parent_id": 2, "l": [{"JSON_parentId": 3}]}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := tree.Parse(text)
		if err != nil || n.Kind() != tree.List || strings.Contains(string(text), "\r") {
			return
		}
		var items []tree.Node
		for _, m := range n.Members() {
			items = append(items, m.Value)
		}
		tables, set, err := tablesOf(items, tree.OfObject())
		if err != nil {
			var fit *Error
			if !errors.As(err, &fit) {
				t.Fatal(err)
			}
			return
		}
		if len(items) > 0 && len(tables["t"]) != len(items)+1 {
			t.Fatalf("got %d rows, want %d, one of each item", len(tables["t"])-1, len(items))
		}
		values := make(map[string]bool)
		for _, rows := range tables {
			for _, row := range rows[1:] {
				for _, cell := range row {
					values[cell] = true
				}
			}
		}
		for name, rows := range tables {
			header := slices.Clone(rows[0])
			slices.Sort(header)
			if len(slices.Compact(header)) != len(rows[0]) {
				t.Fatalf("table %s has a column twice: %q", name, rows[0])
			}
			if name == "t" {
				continue
			}
			for _, row := range rows[1:] {
				if owner := row[len(row)-1]; !strings.HasPrefix(owner, "t") || !values[owner] {
					t.Fatalf("row %q of %s has no owner", row, name)
				}
			}
		}
		again, _, err := tablesOf(items, set.Known())
		if err != nil {
			t.Fatalf("with known columns: %v", err)
		}
		for name, rows := range tables {
			if !slices.EqualFunc(rows, again[name], slices.Equal[[]string]) {
				t.Fatalf("table %s is %q, and with known columns %q", name, rows, again[name])
			}
		}
	})
}
