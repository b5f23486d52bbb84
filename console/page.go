package console

import "net/url"

// page is one page of the console, with the script web/NAME.js.
type page struct {
	// name is the hash route and the name of the script, and title is the text of its link.
	name, title string
	// key, after g, opens the page. Empty means none.
	key string
	// right that is needed to see it.
	right Rights
	// hidden pages have no link, because they are opened from others.
	hidden bool
	// live returns the page's view of a sample. It is called once a second for each viewer, so it must not wait. Nil means that the page has no
	// live part.
	live func(s *sample, query url.Values) view
	// endpoints of the page.
	endpoints []endpoint
}

// view is the live part of a page, one head, and rows in order. Viewers receive its changes.
type view struct {
	// head becomes JSON. It is sent again as a whole.
	head any
	rows []row
}

// row is one line of a view. Its key is unique in the view, and a changed row is sent again as a whole.
type row struct {
	key   string
	cells []any
}

// allPages lists the pages in the order of their links. A page whose subject is missing, such as a catalog, is left out.
func (c *Console) allPages() []page {
	pages := []page{c.overviewPage(), c.sinkPage(), c.quarantinePage(), c.tryPage(), c.tablesPage(), c.tracePage()}
	if c.opts.Catalog != nil {
		pages = append(pages, c.defsPage())
	}
	return append(pages, c.healthPage())
}

// page returns a page that the caller may see.
func (c *Console) page(name string, rights Rights) (page, bool) {
	for _, p := range c.pages {
		if p.name == name && rights&p.right == p.right {
			return p, true
		}
	}
	return page{}, false
}
