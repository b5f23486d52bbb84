// Package console is a live page about an engine, with the waiting rows of each level, their age, their flow, and what holds them up.
//
//	c, err := console.New(eng, console.Options{})
//	http.Handle("/console/", c)
//	defer c.Close()
//
// The handler works below any prefix, with and without [http.StripPrefix] and behind proxies that rewrite paths, because all its URLs are
// relative and one element deep. The prefix must end with a slash. The page needs no build step and loads nothing from elsewhere.
//
// # Who sees what
//
// There are three rights: [Numbers], [Records] and [Changes]. A browser gets them by a token that its user enters once. Other clients send
// the token as "Authorization: Bearer". Without tokens in [Options] the console draws one with all rights. See [Console.Token].
// Requests must name a host of [Options], the loopback, or an IP address, so that no other page can read a local console by a name
// that it controls. Changes must come from the page itself.
//
// # What it costs
//
// Nothing without a viewer. For all viewers together the engine is asked once a second, until 30 s after the last one has left.
//
// # How a page is added
//
// A page is one Go file and one script of the same name, as overview.go and web/overview.js are. For a page NAME:
//
//   - NAME.go has a function that returns a page, with its title, its key, the right it needs, its endpoints and, if it changes by itself, its
//     live view. The function is called in pages, in page.go. That is the only line elsewhere.
//   - An endpoint is named "NAME.VERB", which is its whole URL. Its function gets a call with the user, the rights, the query and the body, and
//     returns a value that becomes JSON, or an error. The function refuse in endpoint.go makes one with a status and a sentence. What changes or
//     reveals something needs Changes or Records as its right. The frame has checked it, and the origin, before the function runs.
//     Everything with an effect is a POST, and the frame logs it with the user's name. What takes long is a task. See task.go.
//   - web/NAME.js exports open(section, app), which returns {query, update, leave}. Only query and update of a live page are needed.
//     web/app.js explains them. It builds nodes with the function h of web/dom.js and never from markup. Requests go through app.get and
//     app.post, which know the rights and show failures.
//   - What strangers have written is shown through the function visible, in Go or in web/dom.js, and only as text.
//   - web/console.css has a section for each page. Style attributes are refused by the content security policy.
package console
