// Package cluster joins several nodes, so that no acknowledged row is lost with any one machine. Each node is an engine with a catalog and handlers,
// as on one machine. A replicated log on NATS JetStream also contains the accepted rows of its engine. Another node takes over from this log.
//
//	node, err := cluster.Open(ctx, "/var/lib/forebay", cluster.Options{
//		Node: "a",
//		Server: &natsserver.Options{
//			Listen: "10.0.0.1:6222", Peers: []string{"10.0.0.1:6222", "10.0.0.2:6222", "10.0.0.3:6222"}, Secret: secret, TLS: config,
//		},
//		Engine: forebay.Options{Staging: staging, Target: target}, // that all nodes reach
//		API:    streamapi.Options{Auth: streamapi.StaticToken(token, 1), IngestURL: "https://in.example.com"},
//	})
//	if err != nil {
//		return err
//	}
//	defer node.Close()
//	go stream.Server(":8080", node.Handler()).ListenAndServe()
//	<-node.Done() // another node has taken over: end the process, or open again
//
// # What is promised
//
// A row that was acknowledged with sync.wait=true is synced on the disk of its node and stored by a majority of the log's servers. It
// reaches its table exactly once (at least once where the driver of the table says so), even if any one machine is lost permanently,
// with its disk, at any moment. The same holds for a node that stands still, is cut off, or comes back after others have given it up.
// Two losses at once are not covered, such as the disk of a node together with a damaged replica of its log. Then nothing is dropped
// silently, the instance is marked as damaged, and all that is left of it stays for an operator.
//
// The price is one response of a majority for each batch of rows, in parallel with the fsync of the local disk. While the majority is
// away, nothing is acknowledged. Clients wait, and get a retryable error when memory is full. The loss of a server that leads a log
// stops that log for 4 to 9 seconds.
//
// # Nodes and instances
//
// A node is a machine with a name that stays. Its folder has an instance, which is an engine with its log and its record of ownership.
// Any node accepts any event into its own instance, so no request crosses nodes, and throughput grows with their number.
//
// A node that falls silent for Options.Lease loses its instance to another node, which restores it from checkpoint and log and moves its
// rows to their tables. When the first node comes back, it finds that it was fenced. It sets its data aside and continues with a new instance.
// A node that is back before that continues with its own instance.
package cluster
