// Package platform is an embeddable server of the platform's APIs: the Storage API with component configurations,
// tokens, buckets, tables, files and their jobs, the queue that runs components, encryption, the index and the API portal. It
// serves one project from one directory, with nothing else beside it, so that a whole system can run on one machine
// and clients can be tested without the real platform.
//
//	server, err := platform.Open("data", platform.Options{Token: token})
//	...
//	defer server.Close()
//	http.ListenAndServe("127.0.0.1:8080", server)
//
// # Promise
//
//   - What a call has acknowledged is on disk: a version of a configuration, a row, a state, a token, a file and its
//     bytes, a job. It is there after a crash of the process or the machine at any point.
//   - A change is there as a whole or not at all, and changes of one object come one after the other.
//   - No id is given twice, also not over crashes.
//   - A job that was accepted is run to an end. A storage job has its effect and its success in one change, so it has
//     the effect once. A component may be run again when the server was stopped in the middle of it; rows that had
//     ended are not run again, and what a program that had returned has written is imported once.
//
// # Configurations
//
// Every change of a configuration or of one of its rows makes a new version of the whole configuration, with the next
// number. Versions are never changed: a rollback makes a new one that is identical with an earlier one, a copy makes
// an independent configuration. The content is kept byte by byte, less the space between its tokens. State is kept
// beside the versions, for each configuration and row.
//
// # Components
//
// A component is described in Options.Components, and can be run by POST /jobs if it has a [Runner]. It runs once with
// the configuration, or once for each enabled row in their order; what a row has written is in its tables before the next
// row begins. Its log is kept as events with the run id of the job. A program that panics fails its job alone; one that
// does not end when its job is terminated, or the server closed, is left behind after Options.Grace.
//
// # Variables and encrypted values
//
// A configuration whose node variables_id names a configuration of [Options.VariablesComponent] has variables. A run
// replaces {{ name }} in all its texts with the values of the job or of the row variables_values_id. A variable without
// a value fails the job. Without variables_id and without values {{ }} stays as it is.
//
// POST /encrypt encrypts texts, and members of JSON whose names begin with "#", for a component, a project or a
// configuration. Configurations keep the encrypted values; only the program of a run in that scope gets the clear text. Its
// log and its error show *** instead, unless the value has less than four bytes.
// Encryption is AES-256-GCM. Its key is made at the first opening and is in the file encryption.key: a backup without that
// file cannot read what was encrypted. Values that another installation has encrypted fail the job.
//
// # Tables
//
// Cells are UTF-8; an import of anything else fails. In a table with types a cell holds the one text of its value: 1.0 and
// 1e0 are the INTEGER 1, and a TIMESTAMP is written in UTC with six digits of a second. A value that its type does not hold
// exactly makes the import fail, with the row, the column and a word for the reason; nothing is rounded or guessed. A TIMESTAMP
// without a zone is UTC, and a BOOLEAN is true or false. The text that an import treats as null, which is the empty one by
// default, becomes an empty cell: there is no null beside it.
//
// An export is a sliced file without a header, compressed unless gzip is false. Its format is CSV ("rfc") or JSON ("json": one
// object on each line). changedSince and changedUntil may be distances from now, such as "-2 days".
//
// # Files
//
// The bytes of files go to an object store with the protocol of Azure's blobs, below /blob of the same server,
// because that is the one whose address comes with the credentials: clients of the platform upload there unmodified.
// Clients that know S3 only are served by the module storageapi/platform/s3gateway, with [Options.S3].
//
// # On disk
//
//	meta/                    the database of everything but bytes: records under keys, see keys.go
//	files/<file>/            one disk file for each blob
//	tables/<incarnation>/    the rows of a table, as parts of CSV without a header, every cell quoted; small ones are merged
//	runs/                    what components write while they run; empty after a start
//	encryption.key           the key of encrypted values
//
// One process at a time may have a directory open. fsync is trusted to make bytes and names durable. When the disk fails or
// is full, calls that need the database are answered with 503 and Retry-After, nothing can be read that is not stored, and
// the database reopens itself; jobs that were under way go on then. GET /readiness-check says whether calls can be
// answered, GET /health-check whether the server runs.
//
// # What is not there
//
// There are no workspaces, aliases, shared or linked buckets, no snapshots of tables and no table triggers; rows
// of a job run one after the other, whatever parallelism asks for. Exports are not Parquet, and an export or a
// preview that is sorted sorts in memory. An import into a table with a primary key keeps the keys of its file in
// memory, and reads every row of the table if it is incremental. Tokens cannot be sent by mail. A call to one of the parts that are
// not there is answered with 501 and what is missing.
package platform
