// Package instance runs an engine whose local level is in a replicated log too. It opens the engine under the record of its owner,
// makes checkpoints and trims the log, and brings the rows of instances that it adopted to their tables.
//
// # In the folder of a node
//
//	LOCK                        held while a process has the folder
//	instance                    the name of the present instance
//	data/<instance>/            its engine
//	data/snapshot/              of a checkpoint in progress
//	data/snapshot.objects       a note of the checkpoints in staging, see package checkpoint
//	data/<instance>/damaged     a note: the disk has lost something, restore the instance
//	data/<instance>.restored/   its engine, while it is restored next to the damaged one
//	adopted/<instance>/         the engine of an instance that is being drained
//	fenced-<instance>-<epoch>/  an engine that must not continue: Salvage reads it, an operator removes it
//
// # The life of an instance
//
//	(no name) ──▶ name written ──▶ log created ──▶ taken ──▶ open ──▶ fenced ──▶ folder set aside ──▶ (a new name)
//
// Each step may be the last one of a process. The next process finds the name, and the state of it in the store of owners, the log
// and the folder, and continues there:
//
//	record    folder     the instance
//	none      empty      is new: its log is created, if that had not happened
//	ours      with rows  continues with the log, from where the folder ends
//	ours      empty      is restored from its checkpoint and the log after it
//	another's any        has ended: the folder is set aside, and a new instance begins
//
// A log is created before there is a record. So a log that is missing although there is a record was lost, and is never created
// again under its name. For the same reason a name is never used for a second instance.
//
// A log that is lost, or lacks earlier entries, is followed by a new log if the folder has everything that was acknowledged:
//
//	record         folder                      the instance
//	log n          with rows, and log n lost   begins log n+1, stores a checkpoint, and the record names both
//	log n+1        ends where log n+1 begins   is recreated, with new ids, and continues
//	log n+1        with batches of log n+1     continues
//	log n+1        empty                       is restored from the checkpoint
//
// A folder that the log does not continue is set aside as well, and the instance is restored. Its store is damaged, is older than the
// log, or has batches that the log never got. Those batches were never reported as stored.
//
// So is a folder that rots while its engine runs. The reader that finds the damage ends the instance and leaves a note, and the next Open restores
// the folder next to the damaged one and exchanges them. Nothing of the damage gets into the log or into a checkpoint, from where each
// adopter would have it. Only if log or checkpoint also lack something, for as long as a lease, the damaged folder continues, and rows that
// cannot be read are counted. The checkpoints after that say so, and whoever begins with one of them counts as well.
//
// # The life of an adopted instance
//
//	adopting ──▶ restored ──▶ draining ──▶ its rows are in their tables ──▶ drained ──▶ log and checkpoint deleted ──▶ retired
//
// It is damaged instead if its log or its checkpoint is incomplete. The adopter restores it into a separate folder, opens an engine
// that accepts no rows, and moves the rows under the ids of the owner. Its work is recorded in the same log, under a higher epoch.
// So when an adopter dies, the next one starts over with the record, the checkpoint and the log, and finds the work already done.
//
// # What moves to the instance of the adopter
//
// The rows of an adopted instance leave for their tables. Its rejected records move to the instance of the adopter. So do the positions of its replays,
// and its files that no table takes now. The table refuses them until an operator acts, or has not taken them for a minute. The move has five steps. Each
// step is durable before the next one begins:
//
//	pause     the adopter refuses changes of the rejected records, and no import of a file runs or begins
//	copy      copies of all of them are in the log of the adopter's instance, where no caller finds them and nothing imports them
//	decide    one write of the record of the adopted instance: MovedTo names the adopter's instance
//	arrive    the copies join the quarantines, the files and the positions of the adopter's instance
//	give up   the adopted instance is drained, and its log is deleted
//
// A copy has the id of the record or file and names the session and the epoch of its mover. Until MovedTo is written the records and files are where
// they were. From then on the copies are the records and files. So a process that dies between two steps neither loses nor doubles one:
//
//   - Before the decision the next adopter lets the files be imported again, and copies the rest again. A record of the adopted instance with a different session, a higher epoch and no
//     MovedTo says that the old mover can no longer decide. Then the node with the copies deletes them.
//   - After the decision no adopter offers the records of the adopted instance, or imports its files, because the marks of the pause are in its
//     log. The node with the instance that MovedTo names, the same node or its adopter, lets the copies join.
//   - An instance with copies whose move is undecided is not drained.
//   - The record of a retired instance stays until Arrived says that the copies have joined.
//
// All records and files of an instance move, or none. If the adopter's instance has no room, the adopted instance stays, and the log says so every
// minute. A quarantine has its bounds, and files take up to half of MaxSinkBytes and MaxDiskBytes, so that the adopter still accepts rows. A source that is
// erased during the copy ends the attempt, because the adopter may have erased its own rows and records before.
//
// A file moves with its ids. The table knows its rows by the id of the file, or by the ids of its parts, and staging knows the objects by the ids of the
// slices. So only records move, and an import that the lost node had begun is an import of the same id. See [buffer.Moves.BeginDeparture].
//
// The position of a replay says how far the rows of the instance come, which are in their tables or move too. So a replay continues at the adopter. A
// node that does not have a run asks the others before it begins one of that name, see [Instance.HasRun].
//
// A file whose slices are not all in staging does not move, because the adopter could not upload them either. After a minute without progress the instance
// gives up its turn, and the log says what to do. While something keeps the instance, its log gets short. The adopter makes a checkpoint,
// trims the log, and opens it once more, so that the servers give back the room that the owner had reserved. Later checkpoints keep the log short.
//
// # The end of an adopted instance
//
// No node adopts a drained instance. Every node looks for drained instances whose adopter died before it could delete their logs. When it starts it
// also looks for logs of retired instances, which a fenced owner has created too late. The record of a retired instance is deleted after a week.
package instance
