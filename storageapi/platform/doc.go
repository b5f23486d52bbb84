// Package platform is an embeddable server of the platform's APIs: the Storage API (component configurations, tokens,
// buckets, tables, files, jobs), the queue that runs components, encryption, the index and the API portal. It serves one
// project from one directory and needs nothing else, so that a whole system runs on one machine and clients can be tested
// without the real platform.
//
//	server, err := platform.Open("data", platform.Options{Token: token})
//	...
//	defer server.Close()
//	http.ListenAndServe("127.0.0.1:8080", server)
//
// # Guarantees
//
//   - An acknowledged change is on disk. It survives a crash of the process or the machine at any point.
//   - A change is applied completely or not at all. Changes of one object are serialized.
//   - No id is given twice, even after a crash.
//   - An accepted job runs to an end. A storage job commits its effect and its success in one transaction, so the effect
//     happens once. A component may run again if the server stopped in the middle of it. Rows that had ended do not run
//     again, and the output of a program that had returned is imported once.
//
// # Configurations
//
// Every change of a configuration or of one of its rows makes a new version of the whole configuration, with the next
// number. Versions never change: a rollback makes a new version that equals an earlier one, a copy makes an independent
// configuration. Content and state are JSON objects, or [] for an empty one. They are stored byte by byte, without white
// space between tokens. Each configuration and row has a state beside its versions.
//
// # Components
//
// Options.Components describes the components. POST /jobs runs one that has a [Runner]: once with the configuration, or once
// for each enabled row, in their order. The output of a row is in its tables before the next row begins. The log of a
// component is stored as events with the run id of the job. A program that panics fails only its own job. A program that
// does not end when its job is terminated, or the server closes, is abandoned after Options.Grace.
//
// # Variables and encrypted values
//
// A configuration has variables if its node variables_id names a configuration of [Options.VariablesComponent]. A run
// replaces {{ name }} in all texts with the values of the job or of the row variables_values_id. A variable without a value
// fails the job. Without variables_id and without values {{ }} stays as it is.
//
// POST /encrypt encrypts texts, and members of JSON whose names begin with "#", for a component, a project, a component in a
// project or a configuration. The project may be a different one. Configurations keep the encrypted values. Only the program
// of a run in that scope gets the clear text; its log and its error show *** instead, unless the value has less than four
// bytes. The cipher is AES-256-GCM. Its key is made at the first opening and stored in the file encryption.key: a backup
// without that file cannot read encrypted values. Values that another installation encrypted fail the job.
//
// # Tables
//
// Cells are UTF-8; an import of other bytes fails. In a table with types each value has one canonical text: 1.0 and 1e0 are
// the INTEGER 1, and a TIMESTAMP is in UTC with six digits of a second. A value that its type cannot hold exactly fails the
// import, with row, column and reason; nothing is rounded or guessed. A TIMESTAMP without a zone is UTC, and a BOOLEAN is
// true or false. An import has one text for null, by default the empty one. It becomes an empty cell: there is no other null.
//
// An export is a sliced file without a header, compressed if gzip is true. Its format is CSV ("rfc") or one JSON object
// a line ("json"). changedSince and changedUntil may be relative to now, such as "-2 days".
//
// # Files
//
// File bytes are uploaded to an object store with the protocol of Azure's blobs, below /blob of the same server. Azure's
// credentials carry the address of the store, so unmodified clients of the platform upload there. The manifest of a sliced
// file names slices with that address: with the scheme azure if clients reach the server by https, and as it is over http. The module
// storageapi/platform/s3gateway serves clients that know only S3, with [Options.S3].
//
// # On disk
//
//	meta/                    the database of everything but bytes: records under keys, see keys.go
//	files/<file>/            one disk file for each blob
//	tables/<incarnation>/    the rows of a table, as parts of CSV without a header, every cell quoted; small parts are merged
//	runs/                    output of running components; empty after a start
//	encryption.key           the key of encrypted values
//
// One process at a time may open a directory. fsync is trusted to make bytes and names durable. When the disk fails or is
// full, calls that need the database get 503 with Retry-After, reads return only what is stored, and the database reopens by
// itself; running jobs then continue. GET /readiness-check says whether calls can be answered, GET /health-check whether the
// server runs.
//
// # Not supported
//
// Workspaces, aliases, shared or linked buckets, snapshots of tables, table triggers, Parquet exports and sending tokens by
// mail. Lists of these parts are empty, one item of them is not found (404), and calls that would make one get 501 with the
// name of the part. The index lists services that are absent too. Calls to an absent service get 501, except that the list of
// schedules (scheduler) and of subscriptions (notification) is empty. Rows of a job run one after the other, whatever
// parallelism says. A sorted export or preview sorts in memory. An import into a table with a primary key keeps the keys of
// its file in memory, and reads every row of the table if it is incremental.
package platform
