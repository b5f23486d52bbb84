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
// The slices of one file of the buffer are slices of one sliced file of the project, which is found again by a tag.
// Its manifest names the slices that are stored, and is written after each of them. The credentials of an upload are
// kept in memory only, and end after some hours: after a restart, or then, further slices go to another file of the
// project with the same tag. Slices that were deleted one by one are marked by a tag until the file goes with the
// last of them.
//
// Lists of files may be a second behind. A slice that is asked for in the first second after a restart may therefore
// seem to be absent, and the buffer tries again; a file that is deleted in that second stays until its life of about
// two weeks is over.
//
// # Target
//
// Imports are at least once. An import is a job of the platform, and nothing there keeps a second job from importing
// the same file:
//
//  1. The id of the project's file is saved with [buffer.File.SaveProgress] before the import is asked for. It never
//     changes for an import that may have been asked for.
//  2. The import is asked for, with the id of the buffer's file as the run id of the job.
//  3. The id of the job is saved, and the job is waited for. A later attempt waits for the same job.
//
// After a crash between 2 and 3 the next attempt looks for a job of that run id and file before it asks again, so
// rows are doubled only if the platform's list of jobs does not show the job yet.
//
// When the slices of a file are all stored by the same [Staging], in one file of the project and of one kind (plain
// or gzip), they are imported where they are. Otherwise they are read, checked row by row, and uploaded to a file of
// their own, as gzip.
//
// # Tokens
//
// With [TokenStore] each sink has a token of its own: it may write the bucket of the sink's table and read all file
// uploads. It is made with the client's token when the first file of the sink is imported, or by [Target.Renew], and
// its description is "[_internal] Stream Sink <source>/<sink>". A token that the platform does not accept any more, or
// whose rights went with a deleted bucket, is replaced, and the new one goes on with what the old one has begun. A
// crash between the making of a token and its storing leaves a token that nobody has; find it by its description. With
// a [TokenSource] that is no store, tokens are made elsewhere, such as by the management of sinks; with neither,
// everything is done with the client's token.
package drivers
