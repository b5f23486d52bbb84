// Package storageapi is a client of the platform's APIs: the Storage API (branches, component configurations, tokens,
// buckets, tables, files, jobs), the queue that runs components, and the index that says where each of them is.
//
// A [Client] is made of the address of a stack and a token. It is immutable and safe for concurrent use;
// [Client.WithToken] and [Client.Branch] return changed copies that share the connections.
//
//	client, err := storageapi.New(storageapi.Options{URL: "https://storage.example.com", Token: token})
//	...
//	for config, err := range client.Configurations(ctx, "my.extractor") {
//		...
//	}
//
// Lists are sequences: they ask for the next page when it is needed, and stop when the loop does. [Collect] makes a slice
// of one.
//
// # Errors
//
// The answer of a server that is not a success is an [*Error] with the HTTP status, the platform's code and the
// exception id that its support asks for. [IsNotFound], [IsAlreadyExists] and [IsUnauthorized] tell the usual cases
// apart. A storage job that ended badly is a [*JobError], a queue job a [*QueueJobError]. Whatever has no answer is
// the error of the network. No error and no log contains a token or the signature of an upload address.
//
// # Retries
//
// A call is repeated, with exponential backoff and jitter, when the repetition cannot do harm:
//
//   - reads, replacements and deletions, after errors of the network and the statuses 408, 409, 423, 429 and 5xx but 501;
//   - creations only when the server cannot have begun them: no connection was made, or it answered 409 (version
//     conflict), 423, 429 or 503. A creation whose id the caller has chosen is repeated like a read, and when the
//     repetition finds that the id is taken, the object is read and returned.
//
// Retry-After of an answer is the least delay before the next attempt. Retries end with the context or with
// [RetryOptions.MaxElapsed]; the last error is returned.
//
// # Server
//
// Package [github.com/forebay/forebay/storageapi/platform] is an embeddable server of the same APIs, package
// [github.com/forebay/forebay/storageapi/drivers] has the buffer's drivers on this client.
package storageapi
