// Package drivers has the buffer's drivers on the Storage API: [Staging] keeps slices as files of the project, [Target]
// imports them into its tables.
//
//	tokens := drivers.NewTokenDir("data/tokens")
//	staging, err := drivers.NewStaging(client, drivers.StagingOptions{Tokens: tokens})
//	target, err := drivers.NewTarget(client, drivers.TargetOptions{Staging: staging, Tokens: tokens})
//	engine, err := forebay.Open("data", forebay.Options{Staging: staging, Target: target})
//
// # Staging
//
// The slices of one file of the buffer become slices of one sliced file of the project, which a tag identifies. The
// manifest of that file names the stored slices and is rewritten after each of them. Upload credentials are kept in memory
// only and end after some hours. After a restart, or when they end, further slices go to another file of the project with the
// same tag. A slice that is deleted alone is marked by a tag. The file is deleted with its last slice.
//
// Lists of files may lag by a second. In the first second after a restart a slice may therefore seem to be absent, and the
// buffer retries. A file that is deleted in that second stays until it expires after about two weeks.
//
// # Target
//
// Imports are at-least-once. An import is a job of the platform, and the platform does not refuse a second job for the same
// file:
//
//  1. The id of the project's file is saved with [driver.File.SaveProgress] before the import is requested. It never
//     changes for an import that may have been requested.
//  2. The import is requested, with the id of the buffer's file as the run id of the job.
//  3. The id of the job is saved, and the job is waited for. A later attempt waits for the same job.
//
// After a crash between 2 and 3 the next attempt first looks for a job with that run id and file. Rows are doubled only if
// the platform's list of jobs does not show the job yet.
//
// Slices are imported in place if one [Staging] stores all of them in one file of the project and in one encoding, plain or
// gzip. Otherwise they are read, checked row by row, and uploaded to a new file, as gzip.
//
// Tables are made with text columns, and compared by the names of their columns alone. A value of a typed column arrives as its
// canonical text. Text columns have no NULL. An empty cell without quotes and "" are both the empty text there. Target is no
// [driver.Extender], so a sink with Table.Extend is refused when it is defined.
//
// # Tokens
//
// With a [TokenStore] each sink has its own token, which may write the bucket of the sink's table and read all file uploads.
// The client's token makes it when the first file of the sink is imported, or in [Target.Renew]. Its description is
// "[_internal] Stream Sink <source>/<sink>". A token that the platform no longer accepts, or whose rights went with a deleted
// bucket, is replaced, and the new token continues the work of the old token. A crash between making and storing a token leaves
// an unused token, so find it by its description. With a [TokenSource] that is not a store, tokens are made elsewhere, for
// example by the management of sinks. Without either, the client's token does everything.
package drivers
