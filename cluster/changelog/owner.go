package changelog

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"
)

// Owner is the record of an instance in [Owners]. It has the owner, and the facts that an adopter needs. Its key is [OwnerKey]. It
// is never deleted while the instance has rows, because the epoch would begin again. [Forget] deletes the records of retired
// instances.
type Owner struct {
	// Node is the name of the owner. It stays the same when the node restarts, even with an empty disk.
	Node string
	// Session is random and new for each process of a node. By it a process tells its own write, whose response was lost, from
	// the write of another process that has, or had, the same name.
	Session string
	// Epoch counts the owners of the instance, from 1. Each restart and each adoption raises it.
	Epoch uint64
	// State is the state of the instance under its owner.
	State OwnerState
	// Beat grows with each write of a session.
	Beat uint64
	// Lease is how long the owner may stay silent before another node adopts the instance.
	Lease time.Duration
	// Log is the ID of the stream. See [Stat].
	Log string
	// Generation counts the logs of the instance, from 0. The owner begins a new one if the previous one is lost or went back. See
	// [Owner.LogName].
	Generation uint64
	// Start is the number of the last batch before the log of this generation. The checkpoint has it. The first log of an
	// instance begins with batch 1.
	Start uint64
	// Checkpoint names the newest checkpoint. It has everything up to CheckpointPosition.
	Checkpoint         string
	CheckpointPosition Position
	// Released is the number of a batch that was acknowledged. Later ones may be, too. A log that ends before it has lost
	// acknowledged rows.
	Released uint64
	// GivenUp lets an adopter continue without the unreadable part of log and checkpoint (see [GiveUp]). The adopter that has done so clears it.
	GivenUp bool
	// Lost is how many batches were acknowledged and are missing since the instance was given up, at least.
	Lost uint64
	// RetiredAt is when the instance became [Retired], by the clock of the node that wrote it. It says how long an operator can still see the
	// record, and nothing else depends on it.
	RetiredAt time.Time
	// Adopted is where the first adopter found the end of the log, nil before that. Later batches of the previous owner are void.
	Adopted *LogEnd
	// MovedTo is the instance to which the rejected records of this one have moved. Empty means that they are here. The adopter writes it
	// once, when copies of all of them are in the log of that instance. From then on those copies are the records.
	MovedTo string
	// Arrived says that the records are in the quarantines of MovedTo, so no node needs this record to decide about them.
	Arrived bool

	format int
	// rest has the members that this release does not know.
	rest map[string]json.RawMessage
}

// LogEnd is the end of a log as an owner found it.
type LogEnd struct {
	// Number of the last batch, and the chain after it.
	Number uint64 `json:"number"`
	Chain  uint64 `json:"chain"`
}

// ownerFormat is the format of the record that this release writes, and the newest that it reads.
//
// A release keeps the members that it does not know when it writes the record again. In a rolling upgrade nodes of two releases
// adopt instances of each other, and neither may lose members that the other one needs. To refuse such a record would leave the instances of
// upgraded nodes without adopters until the upgrade ends.
//
// A member that an older release must not ignore raises the format. A record of a newer format is refused, but its epoch is read, because a
// node is fenced by a newer one as well. Name, type and meaning of node, session and epoch are therefore the same in all formats.
//
// Format 2 has generation and start. A record without them is written in format 1. Both fields are newer, and instances that never lost a log
// stay readable for older releases. Format 3 has moved_to. A release that ignored it would offer the rejected records a second time.
const ownerFormat = 3

// OwnerState is the state of an instance under its owner.
//
//	         Take              silence               Update               Update              Update
//	(none) --------> Owned --------------> Adopting ----------> Draining ----------> Drained ----------> Retired
//	                 |  |                  |   ^  ^             |  |  ^
//	                 |  |                  |   |  +-- silence --+  |  |
//	                 |  |   Update         |   |                   |  |
//	                 |  +----------> Damaged <-+-------------------+  |
//	                 |                                                |
//	                 +--------------------- Update -------------------+
//
// Silence is a candidate's decision (see [Adopt]). It raises the epoch, even from Adopting to Adopting when the adopter falls
// silent too. Update is the owner's decision. [Readmit] is an operator's, and leads from Damaged back to Owned. So is [GiveUp], which leads from Damaged,
// Adopting or Draining to Adopting.
type OwnerState string

// The states of an instance.
const (
	// Owned means that the node takes new rows for it.
	Owned OwnerState = "owned"
	// Adopting means that another node restores it from checkpoint and log.
	Adopting OwnerState = "adopting"
	// Draining means that its rows move to their tables. It accepts no new rows.
	Draining OwnerState = "draining"
	// Drained means that it no longer has rows. Its log and its checkpoints may be deleted.
	Drained OwnerState = "drained"
	// Retired means that log and checkpoints are deleted.
	Retired OwnerState = "retired"
	// Damaged means that log or checkpoint cannot be read without a hole. No node adopts it and everything is kept until an operator
	// calls [Readmit] or [GiveUp].
	Damaged OwnerState = "damaged"
)

// live reports whether the owner has to beat, so that its silence means something.
func (s OwnerState) live() bool { return s == Owned || s == Adopting || s == Draining }

// canBecome reports whether the owner may change the state to next.
func (s OwnerState) canBecome(next OwnerState) bool {
	switch next {
	case s:
		return true
	case Draining:
		return s == Owned || s == Adopting
	case Drained:
		return s == Draining
	case Retired:
		return s == Drained
	case Damaged:
		return s.live()
	}
	return false
}

const ownerPrefix = "i."

// LogName returns the name under which [Log] has the log of an instance. It is the name of the instance, from the second
// generation on followed by _g and the number. A name is never used for a second log. Records delayed on their way to a lost log
// must not reach the next one.
func (o Owner) LogName(instance string) string {
	if o.Generation == 0 {
		return instance
	}
	return fmt.Sprintf("%s_g%d", instance, o.Generation)
}

// OwnerKey is the key of an instance's record in [Owners].
func OwnerKey(instance string) string { return ownerPrefix + instance }

type member struct {
	name  string
	value any
}

// members are listed in the order in which they are read, first the members common to all formats. With every they include the members that only some
// records have, and that a release which does not know them keeps.
func (o *Owner) members(every bool) []member {
	all := []member{
		{"node", &o.Node},
		{"session", &o.Session},
		{"epoch", &o.Epoch},
		{"format", &o.format},
		{"state", &o.State},
		{"beat", &o.Beat},
		{"lease_ns", &o.Lease},
		{"log", &o.Log},
		{"checkpoint", &o.Checkpoint},
		{"checkpoint_position", &o.CheckpointPosition},
		{"released", &o.Released},
	}
	if o.format > 1 {
		all = append(all, member{"generation", &o.Generation}, member{"start", &o.Start})
	}
	if every || o.GivenUp {
		all = append(all, member{"given_up", &o.GivenUp})
	}
	if every || o.Lost > 0 {
		all = append(all, member{"lost", &o.Lost})
	}
	if every || !o.RetiredAt.IsZero() {
		all = append(all, member{"retired_at", &o.RetiredAt})
	}
	if every || o.Adopted != nil {
		all = append(all, member{"adopted", &o.Adopted})
	}
	if every || o.MovedTo != "" {
		all = append(all, member{"moved_to", &o.MovedTo})
	}
	if every || o.Arrived {
		all = append(all, member{"arrived", &o.Arrived})
	}
	return all
}

// MarshalJSON writes the record in the format of this release, with all members that were read with it. It refuses a record that
// cannot be read again.
func (o Owner) MarshalJSON() ([]byte, error) {
	o.format = 1
	if o.Generation > 0 {
		o.format = 2
	}
	if o.MovedTo != "" {
		o.format = ownerFormat
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	all := make(map[string]json.RawMessage)
	maps.Copy(all, o.rest)
	for _, m := range o.members(false) {
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		all[m.name] = value
	}
	return json.Marshal(all)
}

// UnmarshalJSON reads a record. It refuses one that is incomplete, has a member of another type, or is of a newer format.
func (o *Owner) UnmarshalJSON(data []byte) error {
	*o = Owner{}
	if err := json.Unmarshal(data, &o.rest); err != nil {
		return err
	}
	o.format = ownerFormat // so that all members are read. The record says which one it has
	members := o.members(true)
	o.format = 0
	for _, m := range members {
		if value, ok := o.rest[m.name]; ok {
			if err := json.Unmarshal(value, m.value); err != nil {
				return fmt.Errorf("the member %q: %w", m.name, err)
			}
			delete(o.rest, m.name)
		}
	}
	return o.check()
}

func (o *Owner) check() error {
	switch {
	case o.format > ownerFormat:
		return fmt.Errorf("its format is %d, this release reads %d: upgrade this node", o.format, ownerFormat)
	case o.format < 1:
		return errors.New("it has no format")
	case o.Node == "" || o.Session == "":
		return errors.New("it does not say who owns the instance")
	case o.Epoch < 1 || o.Epoch > math.MaxInt64:
		return fmt.Errorf("its epoch is %d", o.Epoch)
	case !o.State.live() && o.State != Drained && o.State != Retired && o.State != Damaged:
		return fmt.Errorf("its state is %q", o.State)
	case o.Generation == 0 && o.Start > 0:
		return fmt.Errorf("its first log begins after batch %d", o.Start)
	case o.Lease <= 0:
		return fmt.Errorf("its lease is %s", o.Lease)
	}
	return nil
}
