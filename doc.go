// Package forebay is an embeddable event buffer. It maps each event to a row of one or more tables, stores the rows on local disk before it
// returns, and moves them to their tables in batches. Each row arrives exactly once.
//
//	engine, err := forebay.Open("data", forebay.Options{}) // tables are folders of CSV files in data/tables
//	if err != nil {
//		return err
//	}
//	defer engine.Close()
//	err = engine.Define(ctx, forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "events", Table: forebay.Table{
//		ID: "events", Columns: mapping.Columns{mapping.UUID("id"), mapping.Datetime("at"), mapping.Path("user", "user.id")},
//	}}}})
//	if err != nil {
//		return err
//	}
//	_, err = engine.Ingest(ctx, "web", mapping.JSON(body)) // nil: the row is on local disk
//
// The path of a row:
//
//	record ─▶ mapping ─▶ CSV row ─▶ local disk ─(step 1)─▶ staging ─(step 2)─▶ table
//
// An [Engine] is opened on a data directory. [Engine.Define] gives it sources. The sinks of a source say how an event
// becomes a row (package mapping), which table takes it, and under which conditions rows move on (package trigger).
// [Engine.Ingest] returns when the rows of a record are on disk. [Engine.Flush] waits until they are in the table.
// Package stream serves ingestion over HTTP. In-process callers need only this package and mapping.
//
// # Promise
//
// A row that Ingest acknowledged with [Stored] is in its table exactly once, or on its way there, after any crash,
// power cut, I/O error, or outage of staging or target. This holds for targets that import a file once per id, as the
// directory driver does. Package driver has the contract, and package buffer lists the assumptions about the disk. A row acknowledged
// with [Queued] (a sink set to [SyncUnsafe]) can be lost by a crash in the first 50 ms or so. The sinks of a source are independent.
// After a crash during Ingest one of them may have kept the record and another not.
//
// Nothing is dropped silently. A record that cannot be mapped is rejected with an error that names sink, column and
// cause, and counted. Memory and disk are bounded, and at a bound Ingest fails before it has taken anything.
//
// # Errors
//
// They are typed by the reaction they call for. Reject: [mapping.Error], [RowTooLargeError]. Retry later:
// [buffer.OverloadError], [buffer.FailedError], [buffer.UnknownError]. Stop: [buffer.FencedError]. Repair: [DefinitionError], [driver.SchemaError].
package forebay
