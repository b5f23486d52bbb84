// Package extractor pulls records from HTTP APIs, driven by a JSON configuration, and emits them page by page.
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
// A configuration has two sections. api says how to talk to the service. It has the base URL, the login, how lists are split
// into pages and when to stop, and headers and parameters of every request. config says what to get. It has jobs with an
// endpoint, parameters and children, attributes such as secrets, and where rows go. [Config] describes requests, logins, values
// and pages.
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
// [Tables] is a receiver that makes CSV tables of the records, one for each kind of object in them. Package feed
// gives them to a source of an engine, and package component runs all of it as a job of the queue.
//
// # Secrets
//
// Attributes whose names begin with '#', responses of logins, and values computed from them appear neither in logs nor in
// errors. They are in requests, and may be in a [Checkpoint] when an API repeats them in links.
//
// # Positions
//
// An incremental job asks for records from the highest value on that a field had in earlier runs, and drops delivered
// records. A job with windows runs once for each day, or other time, since the last run. The [State] has their positions.
//
// # Failure
//
// The first error ends a run. [ExitStatus] distinguishes errors that the user can correct ([*ConfigError], [*ValueError], [*RequestError],
// [*DataError]) from others. A run that gets the checkpoint of a failed run
// continues with the page after the last one that was emitted. A page is emitted at least once, and has the same [Page.ID] then.
package extractor
