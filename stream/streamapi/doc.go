// Package streamapi serves the Stream API, which is the management of sources and sinks over HTTP, for clients that were written for
// the service.
//
//	cat, err := catalog.Open("data/catalog", eng, catalog.Options{})
//	opts := stream.Options{}
//	api, err := streamapi.New(cat, streamapi.Options{
//		Auth: streamapi.StaticToken(token, 1), IngestURL: "https://in.example.com", Ingest: opts,
//	})
//	err = stream.Server(":8081", api).ListenAndServe()
//
// /v1/documentation describes every operation, for people and as OpenAPI. Requests are checked by the schemas of that
// description.
//
// # Requests
//
// A request has a token in X-StorageApi-Token, or in Authorization: Bearer. A programmatic token (kbc_at_, kbc_pat_) also
// needs its project in X-KBC-ProjectId, and a [ProgrammaticAuthenticator] that exchanges it. The form of the request is
// checked first, then the token, the branch, the role and the content. All faults of the form are reported together. To
// callers with the role, so are all faults that a schema cannot express, such as a template that does not compile.
//
// # Responses
//
// An operation that changes something returns 202 with a task. Poll its url. If a request can be refused at once, it is
// refused before that, with its own status. Package catalog documents the stored data and the guarantees of a change. The names of errors
// begin with "stream.api.", errors of the platform with "storage.".
//
// # Beyond the service
//
// Clients of the service see these additions only if they ask for them:
//
//	POST   …/sources/{id}/rotate-secret                     a new secret, with or without overlap
//	POST   …/sources/{id}/retry, …/sinks/{id}/retry         repeat failed attempts now
//	POST   …/sinks/{id}/files/{fileId}/retry                the same for one file
//	DELETE …/sinks/{id}/files/{fileId}                      give up a file that is not in its table
//	GET    …/sinks/{id}/quarantine                          list rejected records; with /{recordId} one with its content
//	PUT    …/quarantine/{recordId}/body?revision=N          edit one
//	POST   …/quarantine/{recordId}/test, …/replay           map one again, without and with storing it
//	DELETE …/quarantine/{recordId}                          discard one
//	POST   …/quarantine/replay, …/quarantine/discard        tasks for a selection, or all
//	POST   …/files/{fileId}/split, …/quarantine             decide about a file that is held
//	GET    /v1/branches/{id}/failed-files                   list the files of all sinks whose last attempt has failed
//	GET    /v1/branches/{id}/damage                         list lost data; DELETE with /{damageId} removes a record
//	DELETE …/sources/{id}?cascade=true                      erase a source with its rows, tables and raw records
//	warning of a setting                                    a condition above half of a bound, which never decides
//
// [NewMaintenance] serves the paths of quarantines, files, retries, shadows and damage for an engine whose sources are defined elsewhere.
package streamapi
