package console

import (
	"cmp"
	"hash/fnv"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
)

// An outage leaves thousands of files with the same error. The page of a sink shows each cause once, and some files of one cause or state.
const (
	// maxCauses bounds the causes that are listed. All others are one line.
	maxCauses = 20
	// otherCauses is the key of that line.
	otherCauses = "cause-others"
)

// fileList is the part of a sink's page above the files.
type fileList struct {
	Causes []causeLine `json:"causes"`
	States []stateLine `json:"states"`
	// Of is the key of the cause or the state whose files are shown, empty for all. From is the position of the first one, of Matching.
	Of       string `json:"of"`
	From     int    `json:"from"`
	Matching int    `json:"matching"`
}

// stateLine is a state with its number of files.
type stateLine struct {
	State string `json:"state"`
	Files cell   `json:"files"`
}

// causeLine is an error with all files that wait because of it.
type causeLine struct {
	Key   string   `json:"key"`
	Text  sentence `json:"text"`
	Files cell     `json:"files"`
	Rows  cell     `json:"rows"`
	// Since is the first failure, Next the next attempt, and Expire when the first rows expire. Each is one time, or empty.
	Since  sentence `json:"since"`
	Next   sentence `json:"next"`
	Expire sentence `json:"expire"`
	// Do is the operator's next step.
	Do string `json:"do,omitempty"`
}

// cause collects the files that wait because of one error.
type cause struct {
	key string
	// first is the oldest file, whose error stands for all. It is nil for other causes.
	first       *buffer.FileStats
	others      int // causes in this one
	files, rows int64
	since, next time.Time
}

// failed reports whether a file waits because its upload or import has failed.
func failed(f *buffer.FileStats) bool {
	return f.FinishedAt.IsZero() && f.Attempt > 0 && f.State != buffer.FileDiscarded && f.State != buffer.FileExpired
}

// listFiles returns the causes and the files that the query asks for by "of" and "from". Waiting files are first, the oldest before the
// others, then ended files, the last one first.
func (k sinkNow) listFiles(q url.Values) (list fileList, rows []row) {
	files := k.stats.Sinks[k.i].Files
	causes, keys := k.causesOf(files)
	list.Of = q.Get("of")
	states := make(map[buffer.FileState]int64)
	var waiting, ended []int
	for i := range files {
		f := &files[i]
		states[f.State]++
		switch {
		case list.Of != "" && list.Of != keys[i] && list.Of != string(f.State):
		case f.FinishedAt.IsZero():
			waiting = append(waiting, i)
		default:
			ended = append(ended, i)
		}
	}
	slices.Reverse(ended)
	chosen := append(waiting, ended...)
	list.Matching = len(chosen)
	chosen, list.From = pageOf(chosen, q.Get("from"))
	for _, i := range chosen {
		rows = append(rows, k.fileRow(&files[i]))
	}
	for _, c := range causes {
		list.Causes = append(list.Causes, k.causeLine(c))
	}
	for _, s := range []buffer.FileState{buffer.FileWriting, buffer.FileClosing, buffer.FileImporting, buffer.FileImported, buffer.FileExpired, buffer.FileDiscarded} {
		if states[s] > 0 {
			list.States = append(list.States, stateLine{string(s), count(states[s])})
		}
	}
	return list, rows
}

// causesOf groups the failing files, the causes with most rows first. keys are the keys of the causes of all files, empty for a file that does
// not fail.
func (k sinkNow) causesOf(files []buffer.FileStats) (causes []*cause, keys []string) {
	keys = make([]string, len(files))
	// failure is the error of a file by which files are grouped, before its varying parts are removed.
	type failure struct {
		state     buffer.FileState
		permanent bool
		reason    string
	}
	byKey, known := make(map[string]*cause), make(map[failure]string)
	for i := range files {
		f := &files[i]
		if !failed(f) {
			continue
		}
		text := failure{state: f.State, permanent: f.Permanent}
		if k.words { // without the right to records a viewer must not learn the number of different errors
			text.reason = strings.ReplaceAll(f.RetryReason, f.ID, "")
		}
		key, ok := known[text]
		if !ok {
			h := fnv.New64a()
			_, _ = h.Write([]byte(varying.ReplaceAllString(string(text.state)+strconv.FormatBool(text.permanent)+": "+text.reason, "#")))
			key = "cause-" + strconv.FormatUint(h.Sum64(), 36)
			known[text] = key
		}
		keys[i] = key
		c := byKey[key]
		if c == nil {
			c = &cause{key: key, first: f}
			byKey[key] = c
			causes = append(causes, c)
		}
		c.add(cause{files: 1, rows: f.Level.Rows, since: f.FirstFailed, next: f.RetryAfter})
	}
	slices.SortStableFunc(causes, func(a, b *cause) int { return cmp.Compare(b.rows, a.rows) })
	if len(causes) > maxCauses {
		others := &cause{key: otherCauses}
		for _, c := range causes[maxCauses-1:] {
			others.add(*c)
			others.others++
			c.key = otherCauses
		}
		causes = append(causes[:maxCauses-1], others)
		for i, key := range keys {
			if key != "" {
				keys[i] = byKey[key].key
			}
		}
	}
	return causes, keys
}

// varying are parts of an error that differ from file to file: positions and numbers of rows and bytes, the port of a connection, durations, and
// long ids.
var varying = regexp.MustCompile(`:[0-9]{2,5}->|\b([0-9]+h)?([0-9]+m)?[0-9]+(\.[0-9]+)?(ns|µs|ms|s)\b|\b(row|rows|line) [0-9][0-9,]*|[0-9][0-9,.]* (rows?|bytes|B)\b|[A-Za-z_-]*[0-9][0-9A-Za-z_-]{11,}`)

func (c *cause) add(o cause) {
	c.files += o.files
	c.rows += o.rows
	c.since = earlier(c.since, o.since)
	c.next = earlier(c.next, o.next)
}

// earlier is the earlier one of two times, of which the zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (k sinkNow) causeLine(c *cause) causeLine {
	line := causeLine{Key: c.key, Files: count(c.files), Rows: count(c.rows)}
	if c.first == nil {
		line.Text = said(strconv.Itoa(c.others), " other causes")
	} else {
		line.Text, line.Do = said(stepOf(c.first), " fails: ", k.errorOf(c.first)), "Nothing"
		if c.first.Permanent {
			line.Do = "Fix the cause"
		}
	}
	if !c.since.IsZero() {
		line.Since = said(c.since)
		if k.stats.Retention > 0 {
			line.Expire = said(c.since.Add(k.stats.Retention))
		}
	}
	if c.next.After(k.at) {
		line.Next = said(until{c.next, k.at})
	}
	return line
}

// stepOf is the step of a file that fails.
func stepOf(f *buffer.FileStats) string {
	if f.State == buffer.FileImporting {
		return "Import"
	}
	return "Upload"
}

// errorOf is the error of a file, for users who may read it.
func (k sinkNow) errorOf(f *buffer.FileStats) string {
	switch {
	case k.words:
		return strings.TrimSuffix(visible(f.RetryReason), ".") + "."
	case f.State == buffer.FileImporting:
		return "the target returns an error." + needsRecords
	}
	return "the staging returns an error." + needsRecords
}
