package extractor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// next moves to the page after p. It reports false when the job ends, and logs the reason.
func (jr *jobRun) next(ctx context.Context, sc scroller, base apiCall, st *stopper, p *page) (more bool, err error) {
	if sc == nil {
		jr.preview.ends(jr.job, "there is no pagination", true)
		if sign := p.signOfMore(st); sign != "" {
			jr.preview.doubt(jr.job, "there is no pagination, but "+sign)
		}
		return false, nil
	}
	reason := st.stop(p, time.Now())
	if reason == "" {
		if more, err = sc.advance(base, p); err != nil {
			return false, jr.dataError(int(st.Pages), err)
		}
		rule, told := sc.ending(base, p)
		if more {
			jr.preview.ends(jr.job, rule, false)
			return true, nil
		}
		reason, st.told = rule, told
		jr.log.InfoContext(ctx, "job finished: there is no next page", "job", jr.job.id, "endpoint", jr.plan.endpointName(jr.job.endpoint), "pages", st.Pages, "reason", reason)
	} else {
		jr.log.InfoContext(ctx, "job stopped", "job", jr.job.id, "endpoint", jr.plan.endpointName(jr.job.endpoint), "reason", reason)
	}
	jr.preview.ends(jr.job, reason, true)
	return false, jr.doubtEnd(ctx, st, p, reason)
}

// doubtEnd warns if a job ends although the last page says that there is more, or because a field of the configuration is missing.
func (jr *jobRun) doubtEnd(ctx context.Context, st *stopper, p *page, reason string) error {
	if st.told || p.blank {
		return nil
	}
	sign := p.signOfMore(st)
	if sign == "" && !st.misled {
		return nil
	}
	text := "the job ended because " + reason
	if sign != "" {
		text += ", but " + sign
	}
	return jr.doubt(ctx, int(st.Pages), text)
}

// doubt warns that a job may miss records. It is an error with Options.Strict.
func (jr *jobRun) doubt(ctx context.Context, page int, text string) error {
	jr.preview.doubt(jr.job, text)
	if jr.opts.Strict {
		return jr.dataError(page, errors.New(text))
	}
	return jr.warn(ctx, page, text)
}

func (jr *jobRun) warn(ctx context.Context, page int, text string) error {
	jr.log.WarnContext(ctx, text, "job", jr.job.id, "endpoint", jr.plan.endpointName(jr.job.endpoint), "page", page)
	return nil
}

// signOfMore returns the part of a page that says that there are more items than the job read; "" without. Fields of the configuration count on every
// page. Only the first page is searched for other signs. Later, the pagination has found its way already.
func (p *page) signOfMore(st *stopper) string {
	for _, c := range st.configs {
		if n, ok := p.response.At(c.countField, "."); ok && c.countField != "" && n.Cut() > st.Items {
			return fmt.Sprintf("%q is %d and %d items were read", c.countField, n.Cut(), st.Items)
		}
		if c.flag == nil {
			continue
		}
		if n, ok := c.flag.at(p.response); ok && truth(n) != c.flag.stopOn {
			return fmt.Sprintf("%q is %.40s", c.flag.field, n.AppendJSON(nil, tree.Plain))
		}
		if n, ok := p.response.At(c.flag.field, "."); ok && truth(n) != c.flag.stopOn {
			return fmt.Sprintf("%q, which nextPageFlag reads as a path only with a delimiter, is %.40s", c.flag.field, n.AppendJSON(nil, tree.Plain))
		}
	}
	if st.Pages > 1 {
		return ""
	}
	if linkOf(p.header.Values("Link"), "next") != "" {
		return "the header Link has a next page"
	}
	if p.single {
		return "" // the fields around it belong to the item
	}
	return signIn(p.response, "", st.Items, 0)
}

// Names of fields, in lower case without punctuation, that many APIs have for the same purpose.
var (
	moreIfTrue  = []string{"hasmore", "hasmoreitems", "hasnext", "hasnextpage", "more", "moreitems", "moreresults", "morerecords"}
	moreIfFalse = []string{"islast", "islastpage", "lastpage", "last", "done", "nomore"}
	nextPages   = []string{
		"next", "nextpage", "nextlink", "odatanextlink", "nexturl", "nexturi", "nextpageurl", "nextpageuri", "nextpagelink", "nexttoken", "nextpagetoken", "nextcursor", "nextpagecursor", "nextmarker",
		"nextrecordsurl", "nextcontinuationtoken", "continuationtoken", "nextoffset",
	}
	totals = []string{"totalcount", "totalitems", "totalresults", "totalrecords", "totalhits", "totalsize", "totalelements", "numfound"}
	// A total, or a count, is one of items if there is a position of a page next to it.
	bareTotals = []string{"total", "count"}
	positions  = []string{"limit", "offset", "page", "perpage", "pagesize", "startat", "start", "startindex", "maxresults", "skip"}
)

const mostSignDepth = 3

// signIn looks for a sign in an object and in the objects below.
func signIn(n tree.Node, path string, items int64, depth int) string {
	if n.Kind() != tree.Object || depth > mostSignDepth {
		return ""
	}
	names := make([]string, n.Len())
	for i, m := range n.Members() {
		names[i] = bareName(m.Key)
	}
	paged := slices.ContainsFunc(names, func(name string) bool { return slices.Contains(positions, name) })
	for i, m := range n.Members() {
		name, v := names[i], m.Value
		at := m.Key
		if path != "" {
			at = path + "." + at
		}
		switch {
		case v.Kind() == tree.Bool && (v.Bool() && slices.Contains(moreIfTrue, name) || !v.Bool() && slices.Contains(moreIfFalse, name)):
			return fmt.Sprintf("%q is %v", at, v.Bool())
		case slices.Contains(nextPages, name) && v.Kind() != tree.Bool && v.Kind() != tree.List && !v.Empty() && (v.Kind() != tree.Object || v.Len() > 0):
			return fmt.Sprintf("%q has a value", at)
		case v.Kind() == tree.Int && v.Int() > items && (slices.Contains(totals, name) || paged && slices.Contains(bareTotals, name)):
			return fmt.Sprintf("%q is %d and %d items were read", at, v.Int(), items)
		}
		if sign := signIn(v, at, items, depth+1); sign != "" {
			return sign
		}
	}
	return ""
}

// bareName returns the letters of a name in lower case.
func bareName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, strings.ToLower(name))
}
