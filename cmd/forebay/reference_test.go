package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/program/flagtext"
	"github.com/forebay/forebay/mapping"
)

// The tables of flags and keys in docs/forebay.md match the code.
func TestReference(t *testing.T) {
	page := filepath.Join("..", "..", "docs", "forebay.md")
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(content), "<!-- reference -->\n")
	_, after, ok2 := strings.Cut(rest, "<!-- end of reference -->\n")
	if !ok || !ok2 {
		t.Fatal("the page has no place for the reference")
	}
	want := before + "<!-- reference -->\n" + reference() + "<!-- end of reference -->\n" + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if string(content) != want {
		t.Errorf("docs/forebay.md differs from the code; go test -run TestReference -update writes it")
	}
}

// quoted are the names in a text that the page shows as code. A tag cannot contain backquotes.
var quoted = regexp.MustCompile(`'(-?[a-zA-Z]+(?:[ _-][a-z]+)*)'`)

// optionDocs are the keys of mapping.TypeOptions, whose fields have no doc tags.
var optionDocs = map[string]string{
	"required":        "if true, events whose value is null or missing are rejected; by default, NULL is stored",
	"emptyIsNull":     "if true, empty text is stored as NULL",
	"epoch":           "'s', 'ms', 'us' or 'ns': a timestamp also accepts numbers in this unit since 1970, and an int64 also accepts times and stores them in this unit",
	"assumeUtc":       "in a timestamp, or a date with 'fromTimestamp': if true, times without a zone are read as UTC",
	"clampLeapSecond": "in the same types: if true, a leap second is stored as the microsecond before it",
	"fromTimestamp":   "in a date: if true, the values of a timestamp are accepted",
	"notBefore":       "earliest timestamp or date",
	"notAfter":        "latest timestamp or date",
	"round":           "if true, decimals with too many digits after the point are rounded",
	"parseText":       "in a 'json' column: if true, text is parsed as a JSON document",
	"anyKind":         "in a 'string' column: if true, objects and arrays are stored as compact JSON",
	"elsePath":        "in a typed column: path that is used if the value at 'path' is null or missing",
	"elseArrival":     "in a timestamp, a date with 'fromTimestamp', or an int64 with 'epoch': if true, the arrival time replaces a null or missing value",
}

func reference() string {
	var b strings.Builder
	b.WriteString("### Flags and keys of the top level\n\n| flag, key | default | example | meaning |\n|---|---|---|---|\n")
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	new(serveConfig).register(flags)
	flags.VisitAll(func(f *flag.Flag) {
		text := flagtext.Of(f)
		byDefault, example := cmp.Or(text.Default, "off"), "–"
		if text.Example != "" {
			example = "`" + text.Example + "`"
		}
		name := "`" + f.Name + "`"
		if isNodeFlag(f.Name) {
			name += ", key `" + sectionKey(f.Name) + "` of `" + clusterSection + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, byDefault, example, text.Meaning)
	})
	for _, part := range []struct {
		title string
		of    reflect.Type
	}{
		{"Keys of target-options, for postgres://", reflect.TypeFor[postgresKeys]()},
		{"Keys of target-options, for mysql://", reflect.TypeFor[mysqlKeys]()},
		{"Keys of target-options, for clickhouse://", reflect.TypeFor[clickhouseKeys]()},
		{"Keys of target-options, for duckdb:", reflect.TypeFor[duckdbKeys]()},
		{"Keys of target-options, for sqlite:", reflect.TypeFor[sqliteKeys]()},
		{"Keys of target-options, for parquet:", reflect.TypeFor[parquetKeys]()},
		{"Keys of target-options, for iceberg:", reflect.TypeFor[icebergKeys]()},
		{"Keys of a source", reflect.TypeFor[sourceKeys]()},
		{"Keys of a sink", reflect.TypeFor[sinkKeys]()},
		{"Keys of quarantine", reflect.TypeFor[boundsKeys]()},
		{"Keys of settings", reflect.TypeFor[settingsKeys]()},
		{"Keys of upload and import", reflect.TypeFor[conditionKeys]()},
		{"Keys of a column", reflect.TypeFor[columnKeys]()},
	} {
		fmt.Fprintf(&b, "\n### %s\n\n| key | meaning |\n|---|---|\n", part.title)
		for _, f := range reflect.VisibleFields(part.of) {
			if key := keyOf(f); key != "" {
				doc := f.Tag.Get("doc")
				if doc == "" {
					doc = optionDocs[key]
				}
				fmt.Fprintf(&b, "| `%s` | %s |\n", key, quoted.ReplaceAllString(doc, "`$1`"))
			}
		}
	}
	return b.String()
}

// Every key has a text.
func TestKeysAreDocumented(t *testing.T) {
	for _, of := range []reflect.Type{
		reflect.TypeFor[postgresKeys](), reflect.TypeFor[mysqlKeys](), reflect.TypeFor[clickhouseKeys](), reflect.TypeFor[duckdbKeys](), reflect.TypeFor[sqliteKeys](), reflect.TypeFor[parquetKeys](), reflect.TypeFor[icebergKeys](),
		reflect.TypeFor[sourceKeys](), reflect.TypeFor[sinkKeys](), reflect.TypeFor[boundsKeys](), reflect.TypeFor[settingsKeys](), reflect.TypeFor[conditionKeys](), reflect.TypeFor[columnKeys](),
	} {
		for _, f := range reflect.VisibleFields(of) {
			if key := keyOf(f); key != "" && f.Tag.Get("doc") == "" && optionDocs[key] == "" {
				t.Errorf("%s.%s has no text", of.Name(), key)
			}
		}
	}
	if n := reflect.TypeFor[mapping.TypeOptions]().NumField(); n != len(optionDocs) {
		t.Errorf("TypeOptions has %d keys, %d have a text", n, len(optionDocs))
	}
}
