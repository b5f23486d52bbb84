package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/driverkit/textcut"
)

// Definitions are the sources and sinks of the catalog, their versions, the differences between two, and the way back. Mappings may hold constants
// that are not for every user, so all of it needs Records.

const (
	// maxVersionsShown versions of a definition are listed at once.
	maxVersionsShown = 100
	// A difference has maxDiffLines lines at most, of maxDiffLine bytes, with diffContext equal lines around each change. The lines that
	// differ are compared with each other if there are not more than maxDiffCells pairs. Otherwise all of them count as changed.
	maxDiffLines, maxDiffLine, diffContext, maxDiffCells = 4000, 4 << 10, 3, 4_000_000
)

func (c *Console) defsPage() page {
	const see, act = Records, Records | Changes
	return page{name: "defs", title: "Definitions", key: "d", right: see, endpoints: []endpoint{
		{name: "defs.list", method: http.MethodGet, right: see, defs: true, run: (*request).defsList},
		{name: "defs.versions", method: http.MethodGet, right: see, defs: true, run: (*request).defsVersions},
		{name: "defs.diff", method: http.MethodGet, right: see, defs: true, run: (*request).defsDiff},
		{name: "defs.rollback", method: http.MethodPost, right: act, change: true, run: (*request).defsRollback},
	}}
}

// defVersion says who made a version, when, and what for.
type defVersion struct {
	Number int    `json:"number"`
	At     moment `json:"at"`
	By     string `json:"by"`
	Change string `json:"change"`
	// Hash is equal for versions with the same content.
	Hash string `json:"hash"`
}

func versionOf(v catalog.Version) defVersion {
	by := cmp.Or(v.By.UserName, v.By.TokenDesc, v.By.UserID, v.By.TokenID, v.By.Type)
	return defVersion{v.Number, moment(v.At), visible(by), visible(v.Description), v.Hash}
}

// defLine is a source or a sink in the list.
type defLine struct {
	// Ref is "source" or "source/sink".
	Ref      string     `json:"ref"`
	Name     string     `json:"name"`
	Kind     string     `json:"kind"`
	Disabled bool       `json:"disabled"`
	Version  defVersion `json:"version"`
}

// refOf parses "source" or "source/sink".
func refOf(text string) catalog.Ref {
	source, sink, _ := strings.Cut(text, "/")
	return catalog.Ref{Source: source, Sink: sink}
}

// defsList returns the live sources, each before its sinks. The query has "filter", a part of a ref, a name or a user, and "skip", the number of
// definitions before the returned ones.
func (c *request) defsList() (any, error) {
	filter := strings.ToLower(strings.TrimSpace(c.query.Get("filter")))
	list := []defLine{}
	add := func(l defLine) {
		for _, text := range []string{l.Ref, l.Name, l.Version.By} {
			if strings.Contains(strings.ToLower(text), filter) {
				list = append(list, l)
				return
			}
		}
	}
	for _, source := range c.opts.Catalog.Sources(false) {
		add(defLine{source.ID, visible(source.Name), "source " + visible(string(source.Type)), source.Disabled != nil, versionOf(source.Version)})
		of, sinks, err := c.opts.Catalog.Sinks(source.ID, false)
		if err != nil {
			continue // it was deleted meanwhile
		}
		for _, sink := range sinks {
			add(defLine{source.ID + "/" + sink.ID, visible(sink.Name), "sink", sink.DisabledWith(of) != nil, versionOf(sink.Version)})
		}
	}
	page, skip := pageOf(list, c.query.Get("skip"))
	return map[string]any{"list": page, "matching": len(list), "skip": skip}, nil
}

// latest returns the number of the version that is live.
func (c *request) latest(ref catalog.Ref) (int, error) {
	if ref.Sink == "" {
		source, err := c.opts.Catalog.Source(ref.Source)
		return source.Version.Number, err
	}
	_, sink, err := c.opts.Catalog.Sink(ref.Source, ref.Sink)
	return sink.Version.Number, err
}

// defsVersions returns versions of "ref", the newest first, only versions below "before" if that is set.
func (c *request) defsVersions() (any, error) {
	ref := refOf(c.query.Get("ref"))
	now, err := c.latest(ref)
	if err != nil {
		return nil, err
	}
	before, err := c.number("before", now+1, 1, now+1)
	if err != nil {
		return nil, err
	}
	all, err := c.opts.Catalog.Versions(ref)
	if err != nil {
		return nil, err
	}
	versions := []defVersion{}
	more := false
	for _, v := range slices.Backward(all) {
		if v.Number >= before {
			continue
		}
		if more = len(versions) == maxVersionsShown; more {
			break
		}
		versions = append(versions, versionOf(v))
	}
	return map[string]any{"ref": c.query.Get("ref"), "current": now, "versions": versions, "more": more, "kept": catalog.MaxVersions}, nil
}

// defDiff is the difference between two versions, or the content of one.
type defDiff struct {
	From defVersion `json:"from"`
	To   defVersion `json:"to"`
	// Lines begin with "+", "-" or a space; "@" and a number stands for equal lines that are left out. Their text is as it is. The page marks
	// invisible characters.
	Lines []string `json:"lines"`
	// Equal is set if the contents are.
	Equal bool `json:"equal"`
	// Rest is the number of lines that are not shown.
	Rest int `json:"rest"`
}

// defsDiff compares the versions "from" and "to" of "ref". The two may be one, which is then returned whole.
func (c *request) defsDiff() (any, error) {
	ref := refOf(c.query.Get("ref"))
	var numbers [2]int
	for i, name := range []string{"from", "to"} {
		n, err := c.number(name, 0, 0, 1<<30)
		if err != nil {
			return nil, err
		}
		numbers[i] = n
	}
	from, before, err := c.opts.Catalog.Version(ref, numbers[0])
	if err != nil {
		return nil, err
	}
	to, after, err := c.opts.Catalog.Version(ref, numbers[1])
	if err != nil {
		return nil, err
	}
	out := defDiff{From: versionOf(from), To: versionOf(to), Equal: bytes.Equal(before, after)}
	if from.Number == to.Number {
		for _, line := range contentLines(after) {
			out.Lines = append(out.Lines, " "+line)
		}
	} else {
		out.Lines = diffLines(contentLines(before), contentLines(after))
	}
	if len(out.Lines) > maxDiffLines {
		out.Rest = len(out.Lines) - maxDiffLines
		out.Lines = out.Lines[:maxDiffLines]
	}
	return out, nil
}

// contentLines writes a content for people, with a line for each member, and for each line of a template. Numbers and texts stay as they are
// stored. Nothing is parsed and printed.
func contentLines(content json.RawMessage) []string {
	var indented bytes.Buffer
	if json.Indent(&indented, content, "", "  ") != nil {
		indented.Reset()
		indented.Write(content)
	}
	var lines []string
	for line := range strings.SplitSeq(indented.String(), "\n") {
		margin := line[:len(line)-len(strings.TrimLeft(line, " "))] + "    "
		var b strings.Builder
		flush := func() {
			lines = append(lines, textcut.Short(b.String(), maxDiffLine))
			b.Reset()
		}
		for i := 0; i < len(line); i++ {
			if line[i] != '\\' || i+1 == len(line) {
				b.WriteByte(line[i])
				continue
			}
			plain, isMarkup := map[string]byte{`\u003c`: '<', `\u003e`: '>', `\u0026`: '&'}[line[i:min(i+6, len(line))]]
			switch {
			case isMarkup: // the encoder hides them from browsers that would take the JSON for a page
				b.WriteByte(plain)
				i += 5
			case line[i+1] == 'n':
				b.WriteString(`\n`)
				flush()
				b.WriteString(margin)
				i++
			default:
				b.WriteString(line[i : i+2])
				i++
			}
		}
		flush()
	}
	return lines
}

// diffLines returns the lines of both with their marks, and without equal lines that are far from a change.
func diffLines(a, b []string) []string {
	start := 0
	for start < min(len(a), len(b)) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < min(len(a), len(b))-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	var all []string
	mark := func(with string, lines []string) {
		for _, line := range lines {
			all = append(all, with+line)
		}
	}
	mark(" ", a[:start])
	x, y := a[start:len(a)-end], b[start:len(b)-end]
	if len(x)*len(y) > maxDiffCells {
		mark("-", x)
		mark("+", y)
	} else {
		// longest[i][j] is the length of the longest common subsequence of x[i:] and y[j:].
		longest := make([][]int32, len(x)+1)
		for i := range longest {
			longest[i] = make([]int32, len(y)+1)
		}
		for i := len(x) - 1; i >= 0; i-- {
			for j := len(y) - 1; j >= 0; j-- {
				if x[i] == y[j] {
					longest[i][j] = longest[i+1][j+1] + 1
				} else {
					longest[i][j] = max(longest[i+1][j], longest[i][j+1])
				}
			}
		}
		i, j := 0, 0
		for i < len(x) || j < len(y) {
			switch {
			case i < len(x) && j < len(y) && x[i] == y[j]:
				mark(" ", x[i:i+1])
				i++
				j++
			case j == len(y) || i < len(x) && longest[i+1][j] >= longest[i][j+1]:
				mark("-", x[i:i+1])
				i++
			default:
				mark("+", y[j:j+1])
				j++
			}
		}
	}
	mark(" ", a[len(a)-end:])
	return withoutContext(all)
}

// withoutContext replaces equal lines that are more than diffContext away from a change by their number.
func withoutContext(all []string) []string {
	near := make([]bool, len(all))
	for i, line := range all {
		if line[0] != ' ' {
			for k := max(0, i-diffContext); k <= min(len(all)-1, i+diffContext); k++ {
				near[k] = true
			}
		}
	}
	var out []string
	for i := 0; i < len(all); {
		if near[i] {
			out = append(out, all[i])
			i++
			continue
		}
		from := i
		for i < len(all) && !near[i] {
			i++
		}
		out = append(out, fmt.Sprintf("@%d", i-from))
	}
	return out
}

// defsRollback makes the content of an old version the newest one, if current is still the newest, so that no user undoes an unseen change.
func (c *request) defsRollback() (any, error) {
	var asked struct {
		Ref     string `json:"ref"`
		Version int    `json:"version"`
		Current int    `json:"current"`
	}
	if err := c.body(&asked); err != nil {
		return nil, err
	}
	c.note("ref", asked.Ref, "to", asked.Version, "before", asked.Current)
	ref := refOf(asked.Ref)
	by := catalog.By{Type: "user", TokenDesc: "console", UserName: c.who.user}
	task, err := c.opts.Catalog.Rollback(by, ref, asked.Version, cmp.Or(asked.Current, unseen))
	if e, ok := errors.AsType[*catalog.Error](err); ok && e.Code == catalog.VersionChanged {
		now, _ := c.latest(ref) // 0 if it was deleted meanwhile
		return nil, refuse(http.StatusConflict, "Version %d was saved meanwhile. Compare with it before you roll back.", now)
	}
	if err != nil {
		return nil, err
	}
	return c.saving(task, fmt.Sprintf("Rollback of %s to version %d", visible(asked.Ref), asked.Version), func() int {
		n, _ := c.latest(ref) // 0 if it was deleted meanwhile
		return n
	})
}
