package extractor

import (
	"strings"

	"github.com/forebay/forebay/extractor/internal/flatten"
	"github.com/forebay/forebay/extractor/internal/tree"
)

// parseMapping reads the manual layout of a table, for each path of an item a column, or a table of the items there.
func parseMapping(s *section) *flatten.Layout {
	l := new(flatten.Layout)
	for _, m := range s.node.Named().Members() {
		path := s.at(m.Key)
		if m.Value.Kind() == tree.String { // only the name of the column
			l.Columns = append(l.Columns, flatten.LayoutColumn{Path: m.Key, Destination: m.Value.Str()})
			continue
		}
		entry := asSection(s.p, m.Value, path)
		if entry == nil {
			continue
		}
		c := flatten.LayoutColumn{Path: m.Key, ForceType: entry.boolean("forceType", false)}
		switch kind := entry.text("type", "column"); kind {
		case "column", "user":
			if kind == "user" {
				c.Kind = flatten.FromExtra
			}
			detail := entry.section("mapping")
			if detail == nil {
				entry.wrong("mapping", "is required")
				break
			}
			c.Destination = detail.required("destination")
			c.PrimaryKey = detail.boolean("primaryKey", false)
			detail.done()
		case "table":
			c.Kind = flatten.ToTable
			c.Destination = entry.required("destination")
			if below := entry.section("tableMapping"); below != nil && below.node.Len() > 0 {
				c.Table = parseMapping(below)
			} else if c.Table, c.Same = l, true; strings.Trim(m.Key, ".") == "" {
				entry.wrong("tableMapping", "is required, because the path %q leads to the item itself", m.Key)
			}
			if key := entry.section("parentKey"); key != nil {
				c.NoParentKey, c.ParentPrimary = key.boolean("disable", false), key.boolean("primaryKey", false)
				c.ParentKey = key.text("destination", "")
				key.done()
			}
		default:
			entry.wrong("type", "must be column, user or table, not %q", kind)
		}
		entry.done()
		l.Columns = append(l.Columns, c)
	}
	if len(l.Columns) == 0 {
		s.p.add(s.path, "must have at least one column")
	}
	return l
}
