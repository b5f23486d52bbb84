// Package natsserver runs a NATS server with JetStream inside of a node, so that a cluster needs no other process. Three, five or
// seven nodes run one. The others connect to servers of their choice.
//
//	server, err := natsserver.Start(ctx, natsserver.Options{
//		Name: "a", Dir: "/var/lib/forebay/nats", Listen: "10.0.0.1:6222",
//		Peers: []string{"10.0.0.1:6222", "10.0.0.2:6222", "10.0.0.3:6222"}, Secret: secret, TLS: config,
//	})
//	if err != nil {
//		return err
//	}
//	defer server.Close() // after everything that uses its connections
//	conn, err := server.Connect()
//
// The servers of a new cluster must all run once before any of them is ready. Later a majority is enough. A server that lost its disk
// comes back under its name with an empty folder, and is filled by the others. Until Ready returns nil, no other server may be
// stopped.
package natsserver
