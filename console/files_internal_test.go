package console

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
)

var sampledAt = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// sampleOfFiles is a sample of one sink with these files.
func sampleOfFiles(files []buffer.FileStats) *sample {
	s := &sample{at: sampledAt, flows: make([]flow, 1)}
	s.stats = forebay.Stats{Retention: 7 * 24 * time.Hour, Sinks: []forebay.SinkStats{{Source: "web", Sink: "orders", SinkStats: buffer.SinkStats{ID: "web/orders", Files: files}}}}
	s.finish()
	return s
}

// failing is a file that the target does not take.
func failing(id, reason string, rows int64) buffer.FileStats {
	return buffer.FileStats{
		ID: id, State: buffer.FileImporting, Attempt: 3, RetryReason: reason, Level: buffer.Level{Rows: rows},
		FirstFailed: sampledAt.Add(-time.Hour), RetryAfter: sampledAt.Add(40 * time.Second),
	}
}

// Files with the same error are one line, whatever differs from file to file in it: its id, positions of rows, numbers, the port of a
// connection, and how long something took.
func TestCausesOfFiles(t *testing.T) {
	files := []buffer.FileStats{
		failing("0192f6c4-0001-7000-8000-00000000000a", `import 0192f6c4-0001-7000-8000-00000000000a: dial tcp 10.0.0.7:5432: connection refused`, 10),
		failing("0192f6c4-0001-7000-8000-00000000000b", `import 0192f6c4-0001-7000-8000-00000000000b: dial tcp 10.0.0.7:5432: connection refused`, 20),
		failing("file-c", `row 17 of the file: column "price" (row 4 of the slice 0192f6c4-0001-7000-8000-0000000000aa)`, 1),
		failing("file-d", `row 4,712 of the file: column "price" (row 9 of the slice 0192f6c4-0001-7000-8000-0000000000ab)`, 1),
		failing("file-e", `column "c1" is missing`, 5),
		failing("file-f", `column "c2" is missing`, 4),
		failing("file-j", `read tcp 10.0.0.3:41712->10.0.0.7:5432: i/o timeout after 5.0017s`, 2),
		failing("file-k", `read tcp 10.0.0.3:60011->10.0.0.7:5432: i/o timeout after 5.021s`, 1),
		{ID: "file-g", State: buffer.FileWriting, Level: buffer.Level{Rows: 7}},
		{ID: "file-h", State: buffer.FileImported, FinishedAt: sampledAt.Add(-2 * time.Minute)},
		{ID: "file-i", State: buffer.FileImported, FinishedAt: sampledAt.Add(-time.Minute)},
	}
	files[1].FirstFailed = sampledAt.Add(-2 * time.Hour)
	files[1].RetryAfter = sampledAt.Add(20 * time.Second)
	files[4].Permanent = true
	list, rows := sampleOfFiles(files).sink(0).listFiles(url.Values{})
	var got []string
	for _, c := range list.Causes {
		got = append(got, fmt.Sprintf("%s|%s|%s|%s|%s|%s|%s", c.Text, c.Since, c.Files, c.Rows, c.Next, c.Expire, c.Do))
	}
	want := []string{
		"Import fails: import 0192f6c4-0001-7000-8000-00000000000a: dial tcp 10.0.0.7:5432: connection refused.|10:00|2|30|20 s|10:00|Nothing",
		`Import fails: column "c1" is missing.|11:00|1|5|40 s|11:00|Fix the cause`,
		`Import fails: column "c2" is missing.|11:00|1|4|40 s|11:00|Nothing`,
		`Import fails: read tcp 10.0.0.3:41712->10.0.0.7:5432: i/o timeout after 5.0017s.|11:00|2|3|40 s|11:00|Nothing`,
		`Import fails: row 17 of the file: column "price" (row 4 of the slice 0192f6c4-0001-7000-8000-0000000000aa).|11:00|2|2|40 s|11:00|Nothing`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("causes:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	order := func(rows []row) (ids string) {
		for _, r := range rows {
			ids += r.key[len(r.key)-1:]
		}
		return ids
	}
	if ids := order(rows); ids != "abcdefjkgih" {
		t.Errorf("the files are %s, want the waiting files, oldest first, and then the ended files, newest first: abcdefjkgih", ids)
	}
	for of, want := range map[string]string{list.Causes[0].Key: "ab", list.Causes[1].Key: "e", list.Causes[3].Key: "jk", list.Causes[4].Key: "cd", "writing": "g", "imported": "ih", "cause-none": "", "importing": "abcdefjk"} {
		of, rows := sampleOfFiles(files).sink(0).listFiles(url.Values{"of": {of}})
		if ids := order(rows); ids != want || of.Matching != len(want) {
			t.Errorf("files of %q: %s of %d, want %s", of.Of, ids, of.Matching, want)
		}
	}
}

// Who may not read records learns neither the errors nor how many different ones there are.
func TestCausesWithoutWords(t *testing.T) {
	s := sampleOfFiles([]buffer.FileStats{failing("a", "the value 17", 1), failing("b", "no room", 1)}).forRights(Numbers)
	list, _ := s.sink(0).listFiles(url.Values{})
	if len(list.Causes) != 1 || list.Causes[0].Text.String() != "Import fails: the target returns an error."+needsRecords || list.Causes[0].Files.Text != "2" {
		t.Errorf("got %+v, want one line of two files without their errors", list.Causes)
	}
}

// An outage of thousands of files, or of thousands of errors, makes a page of a bounded size, and nothing of it is sent again while only time passes.
func TestPageOfAnOutageIsBounded(t *testing.T) {
	const many, maxPage = 20_000, 200 << 10
	for name, reason := range map[string]func(i int) string{
		"one error": func(int) string { return strings.Repeat("connection refused ", 100) },
		"an error for each file": func(i int) string {
			return "no " + strings.Repeat(string(rune('a'+i%26)), 1+i%700) + strings.Repeat(string(rune('a'+i/26%26)), 1+i/700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := make([]buffer.FileStats, many)
			for i := range files {
				files[i] = failing(fmt.Sprintf("file-%08d-%08d", i, i), reason(i), int64(1+i))
			}
			q := url.Values{"source": {"web"}, "sink": {"orders"}, "from": {"19990"}}
			shown := func(at time.Time) string {
				s := sampleOfFiles(files)
				s.at = at
				list, rows := s.sink(0).listFiles(q)
				cells := make([][]any, len(rows))
				for i, r := range rows {
					cells[i] = r.cells
				}
				b, err := json.Marshal([]any{list, cells})
				if err != nil {
					t.Fatal(err)
				}
				if len(list.Causes) > maxCauses || len(rows) > pageSize || list.Matching != many || list.From != 19_950 {
					t.Errorf("got %d causes and %d files from %d of %d, want at most %d causes and %d files from 19950 of %d", len(list.Causes), len(rows), list.From, list.Matching, maxCauses, pageSize, many)
				}
				return string(b)
			}
			first := shown(sampledAt)
			if len(first) > maxPage {
				t.Errorf("the page has %d bytes, want at most %d", len(first), maxPage)
			}
			if later := shown(sampledAt.Add(7 * time.Second)); later != first {
				t.Errorf("7 s later the page differs:\n%.2000s\nwas\n%.2000s", later, first)
			}
		})
	}
}
