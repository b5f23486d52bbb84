package extractor

import (
	"cmp"
	"crypto/md5"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/forebay/forebay/extractor/internal/tree"
)

type jobConfig struct {
	id        string
	path      string
	endpoint  string
	dataType  string
	params    expressionMap
	method    string // "" takes the default
	headers   []header
	dataField dataField
	filters   []string
	delimiter string
	scroller  string
	format    answerFormat
	userData  expressionMap
	children  []*jobConfig
	// parallel is how many runs of children are asked for at the same time.
	parallel    int
	incremental *incrementalConfig
	windows     *windowConfig

	placeholders []placeholder
	filter       *itemFilter
}

// position returns the name under which the state has how far the job has come, "" when it has none.
func (j *jobConfig) position() string {
	switch {
	case j.incremental != nil:
		return j.incremental.name
	case j.windows != nil:
		return j.windows.name
	}
	return ""
}

// A placeholder takes a value for the endpoint out of an item of an ancestor. Level 1 is the parent.
type placeholder struct {
	key   string // as it stands in braces, with the level
	level int
	path  string
	value *expression // nil means the value itself
}

// column returns the name of the column that holds the value in the rows of the child.
func (ph placeholder) column() string {
	if strings.HasPrefix(ph.path, "parent_") {
		return ph.path
	}
	return "parent_" + ph.path
}

// parseJobs reads a list of jobs. Of jobs with one id the last definition runs, in the place of the first.
func parseJobs(list []tree.Node, path string, at place) []*jobConfig {
	var jobs []*jobConfig
	for i, n := range list {
		s := asSection(at.p, n, index(path, i))
		if s == nil {
			continue
		}
		j := parseJob(s, at)
		if same := slices.IndexFunc(jobs, func(o *jobConfig) bool { return o.id == j.id }); same >= 0 {
			jobs[same] = j
		} else {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func parseJob(s *section, at place) *jobConfig {
	sum := md5.Sum(s.node.AppendSerialized(nil, true))
	j := &jobConfig{
		id: cmp.Or(s.text("id", ""), hex.EncodeToString(sum[:])), path: s.path, endpoint: s.required("endpoint"), headers: parseHeaders(s),
		dataField: parseDataField(s), scroller: s.text("scroller", ""), method: parseMethod(s, ""),
	}
	j.dataType = cmp.Or(s.text("dataType", ""), j.endpoint)
	name := cmp.Or(s.text("id", ""), j.endpoint)
	j.incremental, j.windows = parseIncremental(s, name), parseWindows(s, name)
	j.parallel = parseParallel(s, "parallelChildren")
	own := at
	own.families = slices.Clone(at.families)
	if j.incremental != nil {
		own.families = append(own.families, familyIncremental)
	}
	if j.windows != nil {
		own.families = append(own.families, familyWindow)
	}
	if n, ok := s.get("params"); ok && n.Kind() == tree.List && n.Len() > 0 {
		for i, m := range n.Named().Members() {
			j.params = append(j.params, member{m.Key, own.compile(m.Value, index(s.at("params"), i))})
		}
	} else {
		j.params = own.compileMap(s, "params")
	}
	if n, ok := s.get("responseFilter"); ok && n.Kind() == tree.List {
		for i, m := range n.Members() {
			if m.Value.Kind() != tree.String || m.Value.Str() == "" {
				at.p.add(index(s.at("responseFilter"), i), "must be a path")
			}
			j.filters = append(j.filters, m.Value.Text())
		}
	} else if f := s.text("responseFilter", ""); f != "" {
		j.filters = []string{f}
	}
	j.delimiter = cmp.Or(s.text("responseFilterDelimiter", ""), ".")
	j.format = parseFormat(s, at.format)
	j.userData = at.userData(s)
	j.placeholders = parsePlaceholders(s, at)
	if f := s.text("recursionFilter", ""); f != "" {
		var err error
		if j.filter, err = parseItemFilter(f); err != nil {
			s.wrong("recursionFilter", "%v", err)
		}
	}
	j.children = parseJobs(s.list("children"), s.at("children"), at)
	s.done()
	return j
}

// userData reads extra columns: named expressions, or one scalar for the column job_parent_id.
func (pl place) userData(s *section) expressionMap {
	n, ok := s.get("userData")
	if !ok || n.Empty() {
		return nil
	}
	if n.IsScalar() {
		return expressionMap{{"job_parent_id", pl.compile(n, s.at("userData"))}}
	}
	out := pl.compileMap(s, "userData")
	for _, m := range out {
		if m.value.form == objectForm || m.value.form == listForm || m.value.literal.Len() > 0 && m.value.form == literalForm {
			pl.p.add(m.value.path, "must be a value for a column, or an expression of %s", strings.Join(pl.families, ", "))
		}
	}
	return out
}

func parsePlaceholders(s *section, at place) []placeholder {
	below := s.section("placeholders")
	if below == nil {
		return nil
	}
	var out []placeholder
	for _, m := range below.node.Named().Members() {
		ph := placeholder{key: m.Key, level: 1}
		if level, _, ok := strings.Cut(m.Key, ":"); ok {
			if i, isDigits := tree.OfString(level).Digits(); isDigits && i > 0 && i < 1000 {
				ph.level = int(i)
			} else {
				below.wrong(m.Key, "the level before the colon must be a positive number")
			}
		}
		switch m.Value.Kind() {
		case tree.String:
			if ph.path = m.Value.Str(); ph.path == "" {
				below.wrong(m.Key, "must be a path in the parent's item")
			}
		case tree.Object:
			detail := asSection(at.p, m.Value, below.at(m.Key))
			ph.path = detail.required("path")
			if _, ok := detail.get("function"); ok {
				detail.skip("args")
				inner := place{p: at.p, families: []string{familyPlaceholder}, placeholders: true}
				ph.value = inner.compile(m.Value, detail.path)
			}
			detail.done()
		default:
			below.wrong(m.Key, "must be a path in the parent's item, or an object with a path and a function")
		}
		out = append(out, ph)
	}
	return out
}
