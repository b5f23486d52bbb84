// Package extractor pulls records from HTTP APIs, driven by a JSON configuration, and emits them page by page.
//
// A configuration has two sections. api says how to talk to the service: base URL, login, how lists are split into
// pages and when to stop, headers and parameters of every request. config says what to get: jobs with an endpoint,
// parameters and children, attributes such as secrets, and where rows go.
//
//	{
//	  "api": {
//	    "baseUrl": "https://api.example.com/v1/",
//	    "pagination": {"method": "response.url", "urlKey": "links.next"}
//	  },
//	  "config": {
//	    "outputBucket": "shop",
//	    "jobs": [{"endpoint": "orders", "dataField": "items"}]
//	  }
//	}
//
// [Parse] checks all of it and lists every mistake with the path of the value, before anything is requested. [Run]
// sends the requests and gives each page to Options.Emit:
//
//	cfg, err := extractor.Parse(data)
//	state, err = extractor.Run(ctx, cfg, state, extractor.Options{
//		Emit: func(ctx context.Context, p *extractor.Page) error {
//			for rec := range p.Records() {
//				fmt.Printf("%s: %s\n", p.DataType, rec.JSON())
//			}
//			return nil
//		},
//	})
//
// [Tables] is a receiver that makes CSV tables of the records, one for each kind of object in them. Package feed
// gives them to a source of an engine, and package component runs all of it as a job of the queue.
//
// # Requests
//
// The URL of a job is its endpoint resolved against the base URL (RFC 3986). GET sends parameters in the query, POST,
// PUT and PATCH as a JSON body, FORM as a form. A parameter comes from, in rising priority, the query of the endpoint, the defaults
// of the API, the job, and the pagination. Headers of a login replace headers of the same name. A query parameter that
// request and login both have is sent twice: name[0] is the request's value, name[1] the login's.
//
// A failed request is repeated after 1, 2, 4 and so on seconds, or after the server's Retry-After; see retryConfig. There
// is no jitter unless it is asked for, because configurations rely on these delays. At most 5 redirects are followed.
//
// Credentials stay with the origins that the configuration names. A redirect, a link or a child's endpoint that leads
// to another origin is followed without login, configured headers, default parameters and secrets; http.trustedOrigins
// lists origins that get them too.
//
// # Login
//
// One login serves all requests until it expires: never, after a number of seconds, or at a time that its answer
// names; with expires 0 there is one before every request. A login that fails ends the run with a [*RequestError], and
// no other request is sent.
//
// Instead of a login there may be basic or bearer credentials, an API key, an OAuth 2 grant or an HMAC signature.
//
// # Values
//
// Where parameters and headers are computed, an object is an expression: {"attr": "#token"} is an attribute of config,
// {"response": "auth.token"} a value of the login's answer, {"time": "previousStart"} the start of the last run that
// succeeded, and {"function": "md5", "args": [...]} the result of a function, whose arguments may be expressions.
//
// # Pages
//
// The methods are response.url (a link in the answer), response.link (a link in a header), response.param (a value of the
// answer), response.header (the value of a header), offset, pagenum, cursor (the greatest id so far), and multiple (by job). A job ends when its method finds no next page, when limitStop,
// forceStop or nextPageFlag says so, or when a page equals the one before, which is then not emitted.
//
// # Secrets
//
// Attributes whose names begin with '#', answers of logins, and values computed from them appear neither in logs nor in
// errors. They are in requests, and may be in a [Checkpoint] when an API repeats them in links.
//
// # Positions
//
// An incremental job asks for records from the highest value on that a field had in earlier runs, and drops those that were
// delivered. A job with windows runs once for each day, or other time, since the last run. The [State] has their positions.
//
// # Failure
//
// The first error ends a run. Errors that the user can correct ([*ConfigError], [*ValueError], [*RequestError],
// [*DataError]) are told from others by [ExitStatus]. A run that is given the checkpoint of one that did not succeed
// goes on with the page after the last one that was emitted: a page is emitted at least once, and has the same [Page.ID] then.
package extractor
