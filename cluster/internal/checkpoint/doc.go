// Package checkpoint keeps checkpoints of a node's local level where other nodes can read them, in a [driver.Staging].
//
// A checkpoint is the files of a folder that [forebay.Engine.Snapshot] wrote, one object each, and a [Manifest] that lists them with
// their sizes and hashes. The manifest is an object too. It is stored last, and its name, the ref, goes into the owner's
// record. So a checkpoint whose ref is known is complete.
//
// Tables never change. A file that the checkpoint before has is not stored again. The new manifest names the object that is there.
//
// # Names
//
// The name of an object is ckpt-INSTANCE-EPOCH-HASH. INSTANCE is a hash of the instance's name. HASH covers the object: for
// the manifest its bytes; for a file its name, its bytes, and the ref of the checkpoint before. This has three consequences:
//
//   - One name always stands for the same bytes, as the contract of a staging demands. Repeating a [Store.Save] stores nothing twice.
//   - An owner and the adopter that has fenced it write different names, even at the same time.
//   - A name that was deleted is not used again, so a deletion that arrives late does no harm.
//
// # What a crash leaves
//
// A Save that fails or is cut off leaves objects that the record does not name. So that they are found again, even if the disk of the owner is
// lost and another node adopts the instance, Save first notes the ref of the manifest in the store of owners, under c.INSTANCE:
//
//	note       has the refs of all checkpoints whose objects may be in staging
//	manifest   is stored first. It lists the objects
//	files      are stored
//	record     names the checkpoint, which the caller writes
//	tidy       deletes the checkpoints of the note's other refs, manifests last, and removes their refs from the note
//
// The note is changed by comparing and setting, and has the epoch of its last writer. An earlier owner is refused. So the owner alone
// deletes, and only checkpoints that the record can no longer name: checkpoints of earlier owners, and others noted while the record named an
// earlier checkpoint than now. A copy of the note is on the disk of the owner, for when the store of owners is lost.
//
// The only objects that can remain are those that an owner stores after it was fenced, because it stood still in the middle of a call, or
// that a staging stores after it has reported a failure and the object was deleted.
//
// # Which drivers fit
//
// Any staging that all nodes reach and that keeps an object until it is deleted: a bucket (drivers/bucket), or a folder that all
// nodes mount (buffer/dir). The staging of storageapi/drivers does not fit. It puts objects into files of the project that end after two
// weeks, and the checkpoint of an instance with little traffic is older.
//
// Reading is repeated for some seconds before an object counts as missing or changed, since a staging may list an object late.
package checkpoint
