package catalog

import (
	"errors"
	"fmt"
	"strings"
)

// Code names what is wrong with a call. The values are the names of the Stream API, without their prefix.
type Code string

// The codes of [Error].
const (
	// BadRequest is a definition, id or setting that breaks a rule: correct it.
	BadRequest Code = "badRequest"
	// Forbidden is a setting that only the operator may change.
	Forbidden Code = "forbidden"
	// SourceNotFound, SinkNotFound: there is none, or it is deleted.
	SourceNotFound Code = "sourceNotFound"
	SinkNotFound   Code = "sinkNotFound"
	// DeletedSourceNotFound, DeletedSinkNotFound: there is none that is deleted.
	DeletedSourceNotFound Code = "deletedSourceNotFound"
	DeletedSinkNotFound   Code = "deletedSinkNotFound"
	// SourceVersionNotFound, SinkVersionNotFound: the number was never given, or its record has been pruned.
	SourceVersionNotFound Code = "sourceVersionNotFound"
	SinkVersionNotFound   Code = "sinkVersionNotFound"
	// VersionChanged: somebody has changed the source or sink since the version that the caller has seen. Look at the newest one.
	VersionChanged Code = "versionChanged"
	// TaskNotFound: there is none, or its time of retention is over.
	TaskNotFound Code = "taskNotFound"
	// SourceAlreadyExists, SinkAlreadyExists: choose another id, or change the one that exists.
	SourceAlreadyExists Code = "sourceAlreadyExists"
	SinkAlreadyExists   Code = "sinkAlreadyExists"
	// SourceLimit, SinkLimit: delete one before another is made.
	SourceLimit Code = "sourceCountLimitReached"
	SinkLimit   Code = "sinkCountLimitReached"
	// FileNotFound: the sink has no such file that waits.
	FileNotFound Code = "fileNotFound"
	// ImportRuns: an import of the file that was left alone may still store its rows. Try again when it has ended.
	ImportRuns Code = "importIsRunning"
	// FileNotHeld: the file cannot be split, or go to the quarantine, as asked. The message says why.
	FileNotHeld Code = "fileIsNotHeld"
	// QuarantineFull: the quarantine has no room for the rest of a file. Replay or discard records of it, or raise its bounds.
	QuarantineFull Code = "quarantineIsFull"
	// DamageNotFound: the engine lists no such record of damage: an operator has removed it, or its time of retention is over.
	DamageNotFound Code = "damageNotFound"
	// RecordNotFound: the record is not in the quarantine of the sink: it was replayed or discarded, has expired, or never was.
	RecordNotFound Code = "recordNotFound"
	// RecordChanged: somebody has edited or tried the record since it was read. Read it again.
	RecordChanged Code = "recordChanged"
	// SinkDisabled: a sink that is disabled, or whose source is, maps nothing. Enable it.
	SinkDisabled Code = "sinkDisabled"
	// ShadowNotFound: the sink has had no shadow since the catalog was opened.
	ShadowNotFound Code = "shadowNotFound"
	// ShadowRuns: the sink has a shadow that has not ended.
	ShadowRuns Code = "shadowIsRunning"
	// ShadowLimit: the engine has as many shadows as it may have. End one before another is started.
	ShadowLimit Code = "shadowCountLimitReached"
	// Busy: another task changes the same source or sink. Wait for it and ask again.
	Busy Code = "taskIsRunning"
)

// Error is a call that was refused. Nothing was changed.
type Error struct {
	// Code says which rule was broken.
	Code Code
	// Message is for the user: it names the source, sink or field and contains no secret.
	Message string
	// Task is the id of the running task when Code is Busy.
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
