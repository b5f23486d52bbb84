package changelog

import "errors"

// The errors of drivers, by the reaction that they call for. Drivers wrap them with the cause.
var (
	// ErrFenced means that another owner has opened the stream. This owner stops permanently.
	ErrFenced = errors.New("another owner has opened the log")
	// ErrUnknown means that it is not known whether something was stored. Look before you repeat.
	ErrUnknown = errors.New("the log did not respond: it is not known whether this was stored")
	// ErrFull means that the stream has reached its bound. Trim it.
	ErrFull = errors.New("the log is full")
	// ErrMissing means that there is no such stream. It was not made, or it was lost. A missing stream is never the same as an empty one.
	ErrMissing = errors.New("there is no such log")
	// ErrTrimmed means that the requested records were trimmed. A checkpoint has them.
	ErrTrimmed = errors.New("this part of the log was trimmed")
	// ErrHole means that an entry in the middle is missing or damaged. No reader may continue after it.
	ErrHole = errors.New("the log has a hole")
	// ErrUnasked means that the log has a hole on each replica that responds, and some replicas do not respond. They may have the missing part.
	ErrUnasked = errors.New("not all replicas can be asked")
	// ErrWentBack means that the log lacks records that it acknowledged, because a backup was restored or the log was recreated. Leave it alone
	// and begin a new one with a checkpoint of the local level.
	ErrWentBack = errors.New("the log lacks records that it acknowledged before")
	// ErrAhead means that the store has batches that the log lacks. They were never reported as released.
	ErrAhead = errors.New("the log lacks the last batches of the store")
	// ErrNewer means that a later release has written an entry that this one cannot read. Nothing is damaged. Update this node.
	ErrNewer = errors.New("a later release has written to the log, update this node")
	// ErrLost means that another CompareAndSet was first.
	ErrLost = errors.New("another node changed it first")
)
