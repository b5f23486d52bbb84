// Package storageapi is a client of the platform's APIs. These are the Storage API (branches, component
// configurations, tokens, buckets, tables, files, jobs), the queue that runs components, and the index that says
// where each of them is.
//
// A [Client] has the address of a stack and a token. It is immutable and safe for concurrent use; [Client.WithToken] and
// [Client.Branch] return changed copies that share its connections.
//
//	client, err := storageapi.New(storageapi.Options{URL: "https://storage.example.com", Token: token})
//	if err != nil {
//		return err
//	}
//	for config, err := range client.Configurations(ctx, "my.extractor") {
//		fmt.Println(config.Name)
//	}
//
// Lists are sequences. They request the next page when the loop needs it and stop with the loop. [Collect] reads a list into a
// slice.
//
// # Errors
//
// A response that is not a success is an [*Error] with the HTTP status, the platform's code and the exception id for support.
// [IsNotFound], [IsAlreadyExists] and [IsUnauthorized] detect the usual cases. A failed storage job is a [*JobError], a
// failed queue job a [*QueueJobError]. Without a response the error is the network's. No error and no log contains a token or
// the signature of an upload address.
//
// # Retries
//
// A call is repeated, with exponential backoff and jitter, when the repetition is safe:
//
//   - reads, replacements and deletions, after network errors and the statuses 408, 409, 423, 429 and 5xx but 501;
//   - creations only if the server cannot have begun them, because no connection was made, or it responded with 409 (version conflict),
//     423, 429 or 503. A creation with an id that the caller chose is repeated like a read. If the repetition finds the id
//     taken, the existing object is read and returned.
//
// Retry-After is the minimum delay before the next attempt. Retries end with the context or with [RetryOptions.MaxElapsed].
// The last error is returned.
//
// # Server
//
// Package [github.com/forebay/forebay/storageapi/platform], in a separate module, is an embeddable server of the same APIs. Its examples show this
// client. Package [github.com/forebay/forebay/storageapi/drivers] implements the buffer's drivers with the client.
package storageapi
