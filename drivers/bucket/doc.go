// Package bucket keeps slices, tables of Parquet and raw records in a bucket of S3, Google Cloud Storage or Azure Blob Storage.
//
//	staging, err := bucket.Open(ctx, "s3://my-bucket/forebay?region=eu-central-1", bucket.Options{})
//	if err != nil {
//		return err
//	}
//	defer staging.Close() // after the engine
//	engine, err := forebay.Open(dir, forebay.Options{Staging: staging})
//
// Credentials come from the environment, as the SDKs of the vendors find them. They are never in the URL, and never in an error.
//
// # Staging
//
// A slice is one object, named by the slice's id. It is put on the condition that the key is free, so a repeated Put, even during an
// abandoned one, neither tears nor replaces an object. The store responds that the key is taken, and the slice is stored. A store shows
// an object when it is complete and durable. A slice larger than Options.PartSize is uploaded in parts. The object appears with the last
// step. An upload that fails is aborted. [Staging.RemoveUploads] and [Staging.RemoveOrphans] remove the leftovers of a killed process or an
// abandoned attempt.
//
// # Cost
//
// A slice costs one request to put, or three and more in parts, one to open for each import, and one to delete. A Put holds up to four
// parts in memory, 32 MiB by default, or the slice if that is smaller.
//
// # Tables
//
// [Tables] is a target. Each imported file becomes one Parquet object, put on the same condition, so it is imported exactly once. With
// TablesOptions.PartitionBy it becomes one for each day, see there. Parts are not merged in a bucket.
//
// # Raw records
//
// [Archive] is an archive for forebay.Options. The objects are put on the same condition.
//
// # Failures
//
//	what                                      reaction
//	throttling, 5xx, time-out, lost response  the SDK tries again, then the buffer; the condition keeps one object
//	409 of puts that race                     the put is repeated
//	rights, unknown access key, no bucket     permanent: tried again slowly, until an operator fixes it
//	expired token                             tried again
//	an object that is missing                 matches fs.ErrNotExist, if the bucket itself is there
package bucket
