// Package natsdriver keeps replicated logs and owners' records on NATS JetStream: [Log] implements [changelog.Log] and [Owners]
// implements [changelog.Owners]. Both work on a connection of the caller, for example to a server of package natsserver.
//
//	owners, err := natsdriver.NewOwners(conn, natsdriver.Options{})
//	if err != nil {
//		return err
//	}
//	log, err := natsdriver.NewLog(conn, natsdriver.Options{})
//
// # Names
//
//	FB_<cluster>_L_<instance>                             the stream of an instance, followed by _g1, _g2, … once one was lost
//	fb.<cluster>.l.<instance>.<stream id>.<epoch>.<node>  the subject of an owner's records in it; the node is in base64
//	FB_<cluster>_own                                      the key-value bucket of the owners
//
// A record is a message. The fields of the record are its headers, and the data is its body.
//
// # How a writer is fenced
//
// Each append says which sequence it expects to be the last one of the stream, and the leader refuses it otherwise. That alone does
// not stop an old writer with several appends in flight. After another writer's record has taken the slot of the first, the
// next one expects exactly this record before it and is accepted. Therefore Open appends a gap, one atomic batch of
// changelog.Window + 1 equal markers. Every append that the old writer has in flight expects a sequence inside the gap.
//
// A refusal counts proposals that are not committed, and a leader that has lost its quorum refuses as well. So a refusal ends the
// writer and proves nothing. The writer is fenced only if the record of a higher epoch was read.
//
// # What an acknowledgement means
//
// A majority of the replicas has written the record to its Raft log. Whether it is on their disks, and not only in their page cache,
// depends on the servers. They need sync_interval "always" ([natsserver.Options] has it by default).
//
// [natsserver.Options]: https://pkg.go.dev/github.com/forebay/forebay/cluster/natsserver#Options
package natsdriver
