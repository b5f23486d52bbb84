// Package s3gateway serves the files of a platform server ([platform.Server]) with the protocol of S3, so that clients
// which know only S3 can upload and download them. The server hands out temporary credentials of S3 when
// [platform.Options.S3] is set, and this package serves the requests that are signed with them.
//
//	server, err := platform.Open("data", platform.Options{Token: token, S3: &platform.S3Options{}})
//	if err != nil {
//		return err
//	}
//	gateway, err := s3gateway.Open(server.Objects())
//	if err != nil {
//		return err
//	}
//	defer gateway.Close()
//	mux.Handle("/"+platform.ObjectBucket, gateway) // on the host of the server, or on a separate host
//	mux.Handle("/"+platform.ObjectBucket+"/", gateway)
//
// The responses of the platform name no address for S3, so clients use the gateway's address as their endpoint, with addressing
// by path, and sign for the region of the file.
//
// The protocol comes from versitygw, an S3 gateway that is also used alone. Signatures, checksums, chunked bodies,
// conditions and errors are its own. Put, get, head, delete and multipart uploads are served. Everything else (lists,
// policies, versions, tags, copies) is refused as not implemented. An access key reaches the objects of its file only, and
// reads or writes as it was handed out.
package s3gateway
