// Package platform is an embeddable server of the platform's APIs. These are the Storage API (component configurations,
// tokens, buckets, tables, files, jobs), the queue that runs components, encryption, the index and the API portal. The
// server serves one project from one directory and needs nothing else, so that a whole system runs on one machine and
// clients can be tested without the real platform.
//
//	server, err := platform.Open("data", platform.Options{Token: token})
//	if err != nil {
//		return err
//	}
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
// number. Versions never change. A rollback makes a new version that equals an earlier one, a copy makes an independent
// configuration. Content and state are JSON objects, or [] for an empty one. They are stored byte by byte, without white
// space between tokens. Each configuration and row has a state in addition to its versions.
//
// # Components
//
// Options.Components describes the components. POST /jobs runs one that has a [Runner], once with the configuration, or once
// for each enabled row, in their order. The output of a row is in its tables before the next row begins. The log of a
// component is stored as events with the run id of the job. A program that panics fails only its own job. A program that
// does not end when its job is terminated, or the server closes, is abandoned after Options.Grace.
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
// full, calls that need the database get 503 with Retry-After, reads return only stored data, and the database reopens by
// itself. Running jobs then continue. GET /readiness-check says whether calls can be served, GET /health-check whether the
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
