package catalog

import (
	"errors"
	"fmt"
	"strings"
)

// Code names the fault of a call. The values are the names of the Stream API, without their prefix.
type Code string

// The codes of [Error].
const (
	// BadRequest is a definition, id or setting that breaks a rule. Correct it.
	BadRequest Code = "badRequest"
	// Forbidden is a setting that only the operator may change.
	Forbidden Code = "forbidden"
	// SourceNotFound and SinkNotFound mean that there is no such source or sink, or it is deleted.
	SourceNotFound Code = "sourceNotFound"
	SinkNotFound   Code = "sinkNotFound"
	// DeletedSourceNotFound and DeletedSinkNotFound mean that there is no such deleted source or sink.
	DeletedSourceNotFound Code = "deletedSourceNotFound"
	DeletedSinkNotFound   Code = "deletedSinkNotFound"
	// SourceVersionNotFound and SinkVersionNotFound mean that the number was never given, or its record has been pruned.
	SourceVersionNotFound Code = "sourceVersionNotFound"
	SinkVersionNotFound   Code = "sinkVersionNotFound"
	// VersionChanged means that the source or sink has changed since the version that the caller has seen. Look at the newest one.
	VersionChanged Code = "versionChanged"
	// TaskNotFound means that there is no such task, or its time of retention is over.
	TaskNotFound Code = "taskNotFound"
	// SourceAlreadyExists and SinkAlreadyExists mean that the id is in use. Choose another id, or change the
	// existing one.
	SourceAlreadyExists Code = "sourceAlreadyExists"
	SinkAlreadyExists   Code = "sinkAlreadyExists"
	// SourceLimit and SinkLimit mean that there are as many as there may be. Delete one before another is made.
	SourceLimit Code = "sourceCountLimitReached"
	SinkLimit   Code = "sinkCountLimitReached"
	// FileNotFound means that the sink has no such file that waits.
	FileNotFound Code = "fileNotFound"
	// ImportRuns means that an import of the file that was left alone may still store its rows. Try again when it has ended.
	ImportRuns Code = "importIsRunning"
	// FileNotHeld means that the file cannot be split, or go to the quarantine, as asked. The message says why.
	FileNotHeld Code = "fileIsNotHeld"
	// QuarantineFull means that the quarantine has no room for the rest of a file. Replay or discard records of it, or raise its bounds.
	QuarantineFull Code = "quarantineIsFull"
	// DamageNotFound means that the engine lists no such record of damage because an operator has removed it, or its time of retention is over.
	DamageNotFound Code = "damageNotFound"
	// RecordNotFound means that the record is not in the quarantine of the sink because it was replayed or discarded, has expired, or never was.
	RecordNotFound Code = "recordNotFound"
	// RecordChanged means that the record was edited or tried since it was read. Read it again.
	RecordChanged Code = "recordChanged"
	// SinkDisabled means that a sink that is disabled, or whose source is, maps nothing. Enable it.
	SinkDisabled Code = "sinkDisabled"
	// ShadowNotFound means that the sink has had no shadow since the catalog was opened.
	ShadowNotFound Code = "shadowNotFound"
	// ShadowRuns means that the sink has a shadow that has not ended.
	ShadowRuns Code = "shadowIsRunning"
	// ShadowLimit means that the engine has as many shadows as it may have. End one before another is started.
	ShadowLimit Code = "shadowCountLimitReached"
	// Busy means that another task changes the same source or sink. Wait for it and ask again.
	Busy Code = "taskIsRunning"
)

// Error is a call that was refused, so nothing was changed. Or it is the failure of a task, from Task.Wait. Then nothing was changed
// either, unless the task is
// Partial or has Rejects or a Replay, which say how much was done.
type Error struct {
	// Code says which rule was broken.
	Code Code
	// Message is for the user. It names the source, sink or field and contains no secret.
	Message string
	// Task is the id of the running task when Code is Busy, and of the failed task in an error of Task.Wait.
	Task string
}

func (e *Error) Error() string { return e.Message }

func refuse(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// ErrClosed is returned after Close by calls that change something or need the store.
var ErrClosed = errors.New("catalog is closed")

// notFound says that there is no such source or sink, or that it is deleted.
func notFound(ref Ref) error {
	code := SourceNotFound
	if ref.Sink != "" {
		code = SinkNotFound
	}
	text := ref.full()
	list := "sources of the branch"
	if ref.Sink != "" {
		list = fmt.Sprintf("sinks of source %q", ref.Source)
	}
	return refuse(code, "%s%s not found. List the %s to see their ids.", strings.ToUpper(text[:1]), text[1:], list)
}
