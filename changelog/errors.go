package changelog

import "errors"

// The errors of drivers, by the reaction that they call for. Drivers wrap them with the cause.
var (
	// ErrFenced: another owner has opened the stream. This one stops for good.
	ErrFenced = errors.New("another owner has opened the log")
	// ErrUnknown: it is not known whether something was stored. Look before you repeat.
	ErrUnknown = errors.New("the log did not answer: it is not known whether this was stored")
	// ErrFull: the stream has reached its bound. Trim it.
	ErrFull = errors.New("the log is full")
	// ErrMissing: there is no such stream. It was not made, or it was lost: that is never the same as an empty one.
	ErrMissing = errors.New("there is no such log")
	// ErrTrimmed: what is asked for was trimmed. A checkpoint has it.
	ErrTrimmed = errors.New("this part of the log was trimmed")
	// ErrHole: an entry in the middle is missing or damaged. Nobody may go on behind it.
	ErrHole = errors.New("the log has a hole")
	// ErrUnasked: the log has a hole on each replica that responds, and some replicas do not respond. They may have the missing part.
	ErrUnasked = errors.New("not all replicas can be asked")
	// ErrWentBack: the log lacks what it had acknowledged, because a backup was restored or the log was made again. Leave it alone
	// and begin a new one with a checkpoint of the local level.
	ErrWentBack = errors.New("the log lacks records that it acknowledged before")
	// ErrAhead: the store has batches that the log lacks. Nobody was told that they are released.
	ErrAhead = errors.New("the log lacks the last batches of the store")
	// ErrNewer: a later release has written an entry that this one cannot read. Nothing is damaged: update this node.
	ErrNewer = errors.New("a later release has written to the log, update this node")
	// ErrLost: another CompareAndSet was first.
	ErrLost = errors.New("another node changed it first")
)
