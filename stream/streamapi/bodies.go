package streamapi

import (
	"encoding/json"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/stream/internal/wire"
)

// The bodies of the Stream API. Requests are checked by the schemas that are made of these types, and the description of
// the API is made of the same schemas.

type sourceCreate struct {
	SourceID    string       `json:"sourceId,omitempty" minLength:"1" maxLength:"48" doc:"Id of the source. Made from the name if it is not given."`
	Type        string       `json:"type" enum:"http,otlp" doc:"Kind of the source."`
	Name        string       `json:"name" minLength:"1" maxLength:"40" doc:"Name for people, 1 to 40 characters; the id is made from it if none is given."`
	Description string       `json:"description,omitempty" maxLength:"4096" doc:"Text for people."`
	Sinks       []sinkCreate `json:"sinks,omitempty" maxItems:"100" doc:"Sinks that are created with the source."`
}

type sourceUpdate struct {
	Type              *string `json:"type,omitempty" enum:"http,otlp" doc:"Another kind gives the source a new secret."`
	Name              *string `json:"name,omitempty" minLength:"1" maxLength:"40" doc:"Name for people."`
	Description       *string `json:"description,omitempty" maxLength:"4096" doc:"Text for people."`
	ChangeDescription string  `json:"changeDescription,omitempty" maxLength:"4096" doc:"Text of the new version."`
}

type sinkCreate struct {
	SinkID         string       `json:"sinkId,omitempty" minLength:"1" maxLength:"48" doc:"Id of the sink. Made from the name if it is not given."`
	Type           string       `json:"type" enum:"table" doc:"Kind of the sink; one is known."`
	Name           string       `json:"name" minLength:"1" maxLength:"40" doc:"Name for people, 1 to 40 characters; the id is made from it if none is given."`
	Description    string       `json:"description,omitempty" maxLength:"4096" doc:"Text for people."`
	AllowedSignals []string     `json:"allowedSignals,omitempty" enum:"logs,metrics,traces" doc:"Signals of an OTLP source that the sink takes; none means all."`
	AckLocal       bool         `json:"ackLocal,omitempty" doc:"Acknowledge events before the replicated log of a cluster has them: missing events are lost with the node. Without a cluster it changes nothing."`
	OnReject       string       `json:"onReject,omitempty" enum:"refuse,quarantine" doc:"What becomes of an event that the columns cannot map: its sender gets the error, or it is kept in the quarantine of the sink. Default: refuse."`
	Quarantine     *boundsBody  `json:"quarantine,omitempty" doc:"Bounds of the quarantine, with onReject quarantine."`
	Table          *tableCreate `json:"table,omitempty" doc:"Table that the events become rows of; required for the type table."`
}

type tableCreate struct {
	Type    string  `json:"type" doc:"Kind of the table; one value is allowed."`
	TableID string  `json:"tableId" minLength:"1" doc:"Destination: stage.bucket.table. It is created if there is none."`
	Mapping columns `json:"mapping" doc:"What a row is made of."`
	Target  string  `json:"target,omitempty" doc:"Name of the target of the table, one of the additional targets of the server. Default: its default target."`
	Extend  *bool   `json:"extend,omitempty" doc:"Let the table grow: it gets the columns that the mapping adds, and keeps the columns that the mapping no longer has, as NULL. A column cannot get another type. Without it the table has exactly the columns of the mapping."`
}

type columns struct {
	Columns []mappedColumn `json:"columns" minItems:"1" maxItems:"100" doc:"Columns of the table in their order."`
}

type sinkUpdate struct {
	Type              *string      `json:"type,omitempty" enum:"table" doc:"Kind of the sink; it cannot change."`
	Name              *string      `json:"name,omitempty" minLength:"1" maxLength:"40" doc:"Name for people."`
	Description       *string      `json:"description,omitempty" maxLength:"4096" doc:"Text for people."`
	ChangeDescription string       `json:"changeDescription,omitempty" maxLength:"4096" doc:"Text of the new version."`
	AllowedSignals    *[]string    `json:"allowedSignals,omitempty" enum:"logs,metrics,traces" doc:"An empty list means all."`
	AckLocal          *bool        `json:"ackLocal,omitempty" doc:"Acknowledge events before the replicated log of a cluster has them, or no longer."`
	OnReject          *string      `json:"onReject,omitempty" enum:"refuse,quarantine" doc:"What becomes of an event that the columns cannot map. What is in the quarantine stays there."`
	Quarantine        *boundsBody  `json:"quarantine,omitempty" doc:"Replaces all bounds of the quarantine."`
	Table             *tableUpdate `json:"table,omitempty" doc:"Changes of the table; a member that is left out stays as it is."`
}

type tableUpdate struct {
	Type    *string  `json:"type,omitempty" doc:"Kind of the table; one value is allowed."`
	TableID *string  `json:"tableId,omitempty" minLength:"1" doc:"Destination of new rows: stage.bucket.table. Rows that wait go to the one before."`
	Target  *string  `json:"target,omitempty" doc:"Name of the target of new rows; the empty name is the default target. Waiting rows go to the previous target."`
	Mapping *columns `json:"mapping,omitempty" doc:"Replaces all columns."`
	Extend  *bool    `json:"extend,omitempty" doc:"Let the table grow with the mapping, or no longer."`
}

// boundsBody are [catalog.QuarantineBounds].
type boundsBody struct {
	MaxBytes   int64  `json:"maxBytes,omitempty" minimum:"1" doc:"Bytes of all records. Default: a 256th of the bound of the disk, 64 MiB."`
	MaxRecords int    `json:"maxRecords,omitempty" minimum:"1" doc:"Number of records. Default: 100000."`
	MaxAge     string `json:"maxAge,omitempty" doc:"How long a record is kept, for example 168h. Default: 720h0m0s."`
	DropOldest bool   `json:"dropOldest,omitempty" doc:"At the bounds the oldest records expire. Default: new ones are refused."`
	HoldFiles  bool   `json:"holdFiles,omitempty" doc:"A file of which the table refuses rows is held, so that it is imported whole or not at all. Default: it is imported without them, and they go to the quarantine."`
}

// bounds adds to the problems the bounds that the engine would refuse, under the names of the body.
func (b *boundsBody) bounds(at string, p *problems) catalog.QuarantineBounds {
	if b == nil {
		return catalog.QuarantineBounds{}
	}
	age := time.Duration(0)
	if b.MaxBytes != 0 && b.MaxBytes < 1<<10 {
		p.add("invalidRange", "body.%squarantine.maxBytes is %d, the least is %d", at, b.MaxBytes, 1<<10)
	}
	if b.MaxRecords > 10_000_000 {
		p.add("invalidRange", "body.%squarantine.maxRecords is %d, the most is 10000000", at, b.MaxRecords)
	}
	if b.MaxAge != "" {
		var err error
		if age, err = time.ParseDuration(b.MaxAge); err != nil {
			p.add("invalidFieldType", "body.%squarantine.maxAge is %q, must be a duration such as 168h", at, b.MaxAge)
		} else if age < time.Second {
			p.add("invalidRange", "body.%squarantine.maxAge is %q, the least is 1s", at, b.MaxAge)
		}
	}
	return catalog.QuarantineBounds{MaxBytes: b.MaxBytes, MaxRecords: b.MaxRecords, MaxAge: age, DropOldest: b.DropOldest, HoldFiles: b.HoldFiles}
}

// newBounds returns nil where all bounds are defaults.
func newBounds(q catalog.QuarantineBounds) *boundsBody {
	if q == (catalog.QuarantineBounds{}) {
		return nil
	}
	b := &boundsBody{MaxBytes: q.MaxBytes, MaxRecords: q.MaxRecords, DropOldest: q.DropOldest, HoldFiles: q.HoldFiles}
	if q.MaxAge != 0 {
		b.MaxAge = q.MaxAge.String()
	}
	return b
}

// onReject reads a word that the schema has checked.
func onReject(word string) (o forebay.OnReject) {
	_ = o.UnmarshalText([]byte(word))
	return o
}

// onRejectWord is empty for the default.
func onRejectWord(o forebay.OnReject) string {
	if o == forebay.Refuse {
		return ""
	}
	return o.String()
}

type settingsUpdate struct {
	ChangeDescription string          `json:"changeDescription,omitempty" maxLength:"4096" doc:"Text of the new version."`
	Settings          []settingUpdate `json:"settings,omitempty" doc:"Settings to change; all others stay as they are."`
}

type settingUpdate struct {
	Key   string          `json:"key" minLength:"1" doc:"Key of the setting."`
	Value json.RawMessage `json:"value" doc:"Null restores the inherited value of the setting."`
}

// byBody has the members of [catalog.By].
type byBody struct {
	Type      string `json:"type" doc:"Kind of the actor: user for a request, system for the service itself."`
	TokenID   string `json:"tokenId,omitempty" doc:"Id of the token of the request."`
	TokenDesc string `json:"tokenDesc,omitempty" doc:"Description of the token of the request."`
	UserID    string `json:"userId,omitempty" doc:"Id of the person whose token it is."`
	UserName  string `json:"userName,omitempty" doc:"Name of the person whose token it is."`
}

type createdBody struct {
	At string `json:"at" doc:"Time in UTC with milliseconds."`
	By byBody `json:"by" doc:"Who did it."`
}

type disabledBody struct {
	At     string `json:"at" doc:"Time in UTC with milliseconds."`
	By     byBody `json:"by" doc:"Who did it."`
	Reason string `json:"reason" doc:"Why; API when it was asked for."`
}

type versionBody struct {
	Number      int    `json:"number" minimum:"1" doc:"Number of the version, from 1."`
	Hash        string `json:"hash" doc:"Versions with the same content have the same 16 hex digits."`
	Description string `json:"description" doc:"What was changed."`
	At          string `json:"at" doc:"Time in UTC with milliseconds when it was made."`
	By          byBody `json:"by" doc:"Who made it."`
	Content     any    `json:"content,omitempty" doc:"What the version holds; in the detail of a version only."`
}

type sourceBody struct {
	ProjectID      int           `json:"projectId" doc:"Id of the project."`
	BranchID       int           `json:"branchId" doc:"Id of the branch."`
	SourceID       string        `json:"sourceId" doc:"Id of the source."`
	Type           string        `json:"type" enum:"http,otlp" doc:"Kind of the source."`
	Name           string        `json:"name" doc:"Name for people."`
	Description    string        `json:"description" doc:"Text for people."`
	HTTP           *httpBody     `json:"http,omitempty" doc:"Address of a source of type http."`
	OTLP           *otlpBody     `json:"otlp,omitempty" doc:"Address of a source of type otlp."`
	OldSecretUntil string        `json:"oldSecretUntil,omitempty" doc:"Time until which the secret before this one is accepted too; only while it is."`
	Version        versionBody   `json:"version" doc:"Newest version."`
	Created        createdBody   `json:"created" doc:"When and by whom it was created."`
	Deleted        *createdBody  `json:"deleted,omitempty" doc:"When and by whom it was deleted; only while it is."`
	Disabled       *disabledBody `json:"disabled,omitempty" doc:"When, by whom and why it was disabled; only while it is."`
}

type httpBody struct {
	URL string `json:"url" doc:"Where events are posted."`
}

type otlpBody struct {
	URL     string `json:"url" doc:"Endpoint with the secret."`
	BaseURL string `json:"baseUrl" doc:"Endpoint for clients that send the secret as bearer token."`
	Secret  string `json:"secret" doc:"Secret of the source."`
}

type sinkBody struct {
	ProjectID      int           `json:"projectId" doc:"Id of the project."`
	BranchID       int           `json:"branchId" doc:"Id of the branch."`
	SourceID       string        `json:"sourceId" doc:"Id of the source."`
	SinkID         string        `json:"sinkId" doc:"Id of the sink."`
	Type           string        `json:"type" enum:"table" doc:"Kind of the sink."`
	Name           string        `json:"name" doc:"Name for people."`
	Description    string        `json:"description" doc:"Text for people."`
	AllowedSignals []string      `json:"allowedSignals,omitempty" doc:"Signals of an OTLP source that the sink takes; left out for all."`
	AckLocal       bool          `json:"ackLocal,omitempty" doc:"Events are acknowledged before the replicated log of a cluster has them."`
	OnReject       string        `json:"onReject,omitempty" enum:"refuse,quarantine" doc:"What becomes of an event that the columns cannot map; left out where its sender gets the error."`
	Quarantine     *boundsBody   `json:"quarantine,omitempty" doc:"Bounds of the quarantine that differ from their defaults."`
	Table          tableBody     `json:"table" doc:"Table that the events become rows of."`
	Version        versionBody   `json:"version" doc:"Newest version."`
	Created        createdBody   `json:"created" doc:"When and by whom it was created."`
	Deleted        *createdBody  `json:"deleted,omitempty" doc:"When and by whom it was deleted; only while it is."`
	Disabled       *disabledBody `json:"disabled,omitempty" doc:"When, by whom and why it accepts no events, for example because its source is disabled; only while it is disabled."`
}

type tableBody struct {
	Type    string  `json:"type" doc:"Kind of the table."`
	TableID string  `json:"tableId" doc:"Destination: stage.bucket.table."`
	Target  string  `json:"target,omitempty" doc:"Name of the target of the table; left out for the default target."`
	Mapping columns `json:"mapping" doc:"What a row is made of."`
	Extend  bool    `json:"extend,omitempty" doc:"The table grows with the mapping."`
}

type pageBody struct {
	Limit      int    `json:"limit" doc:"Greatest length of this page."`
	TotalCount int    `json:"totalCount" doc:"Number of items of all pages."`
	AfterID    string `json:"afterId" doc:"Id after which the page begins, as it was asked for."`
	LastID     string `json:"lastId" doc:"Id of the last item, for the next page; empty on an empty page."`
}

type sourcesBody struct {
	ProjectID int          `json:"projectId" doc:"Id of the project."`
	BranchID  int          `json:"branchId" doc:"Id of the branch."`
	Page      pageBody     `json:"page" doc:"Which part of the list it is."`
	Sources   []sourceBody `json:"sources" doc:"Sources by id."`
}

type sinksBody struct {
	ProjectID int        `json:"projectId" doc:"Id of the project."`
	BranchID  int        `json:"branchId" doc:"Id of the branch."`
	SourceID  string     `json:"sourceId" doc:"Id of the source."`
	Page      pageBody   `json:"page" doc:"Which part of the list it is."`
	Sinks     []sinkBody `json:"sinks" doc:"Sinks by id."`
}

type versionsBody struct {
	Versions []versionBody `json:"versions" doc:"Versions by number, without their content."`
	Page     pageBody      `json:"page" doc:"Which part of the list it is."`
}

type settingsBody struct {
	Settings []settingBody `json:"settings" doc:"All settings by key."`
}

type settingBody struct {
	Key          string `json:"key" doc:"Key of the setting."`
	Type         string `json:"type" doc:"Type of the value: string, int, bool or []string; durations and sizes are strings."`
	Description  string `json:"description" doc:"What it does."`
	Value        any    `json:"value" doc:"Value that counts."`
	DefaultValue any    `json:"defaultValue" doc:"Value that counts where no other value is set."`
	Overwritten  bool   `json:"overwritten" doc:"The source or sink has its own value."`
	Origin       string `json:"origin" enum:"default,source,sink" doc:"Where the value comes from."`
	Protected    bool   `json:"protected" doc:"Only the operator can change it."`
	Validation   string `json:"validation,omitempty" doc:"Rule for values."`
	Warning      string `json:"warning,omitempty" doc:"Why the value has no effect; left out where it has. A bound of the service is reached before such a condition."`
}

type taskBody struct {
	TaskID          string         `json:"taskId" doc:"Id of the task, with slashes."`
	Type            string         `json:"type" doc:"What the task does."`
	URL             string         `json:"url" doc:"Address to poll."`
	Status          string         `json:"status" enum:"processing,success,error" doc:"How far it is."`
	IsFinished      bool           `json:"isFinished" doc:"It has ended: the status is not processing."`
	CreatedAt       string         `json:"createdAt" doc:"Time in UTC with milliseconds when it began."`
	FinishedAt      string         `json:"finishedAt,omitempty" doc:"Time in UTC with milliseconds when it ended."`
	Duration        *int64         `json:"duration,omitempty" doc:"Milliseconds."`
	Result          string         `json:"result,omitempty" doc:"What was done, after a success."`
	Warnings        []warning      `json:"warnings,omitempty" doc:"What needs attention though the task has succeeded; left out for nothing."`
	Error           string         `json:"error,omitempty" doc:"Reason after a failure."`
	ErrorName       string         `json:"errorName,omitempty" doc:"Name of the error where the request is at fault; left out where the same request may succeed later."`
	ErrorStatusCode int            `json:"errorStatusCode,omitempty" doc:"Status that goes with the name."`
	Rejects         *rejectsResult `json:"rejects,omitempty" doc:"What a replay or a discard of rejected records has done, also one that has failed; left out for other tasks."`
	Discard         *discardBody   `json:"discard,omitempty" doc:"Who discards rejected records, and why; left out for other tasks."`
	Replay          *replayState   `json:"replay,omitempty" doc:"How far the replay of an archive is, also one that has failed; left out for other tasks."`
	Outputs         *outputsBody   `json:"outputs,omitempty" doc:"What was changed; after a success, and after a deletion of which something is left."`
}

// discardBody has the members of [catalog.Discard].
type discardBody struct {
	By     string `json:"by" doc:"Name of the user or token."`
	Reason string `json:"reason,omitempty" doc:"Reason as it was given; left out without one."`
}

// warning has the members of [catalog.Warning].
type warning struct {
	SinkID  string `json:"sinkId" doc:"Id of the sink that is concerned."`
	Message string `json:"message" doc:"What is wrong; rows of the sink wait in staging until that is mended."`
}

type outputsBody struct {
	URL       string `json:"url" doc:"Address of the source or sink in the API."`
	ProjectID int    `json:"projectId" doc:"Id of the project."`
	BranchID  int    `json:"branchId" doc:"Id of the branch."`
	SourceID  string `json:"sourceId" doc:"Id of the source."`
	SinkID    string `json:"sinkId,omitempty" doc:"Id of the sink, if the task was about one."`
}

type levelBody struct {
	FirstRecordAt    string `json:"firstRecordAt,omitempty" doc:"Time in UTC with milliseconds of the first record; left out if there is none."`
	LastRecordAt     string `json:"lastRecordAt,omitempty" doc:"Time in UTC with milliseconds of the last record; left out if there is none."`
	RecordsCount     int64  `json:"recordsCount" doc:"Number of records."`
	CompressedSize   int64  `json:"compressedSize" doc:"Bytes as they are stored."`
	UncompressedSize int64  `json:"uncompressedSize" doc:"Bytes of the rows before compression."`
}

type levelsBody struct {
	Local   *levelBody `json:"local,omitempty" doc:"On local disk; left out if it is empty."`
	Staging *levelBody `json:"staging,omitempty" doc:"In staging, waiting for the import; left out if it is empty."`
	Target  *levelBody `json:"target,omitempty" doc:"In the table; left out if it is empty."`
}

type totalBody struct {
	Total      levelBody        `json:"total" doc:"Sum of the levels."`
	Levels     levelsBody       `json:"levels" doc:"Where the records are."`
	Lost       lostBody         `json:"lost" doc:"Accepted records that are no longer in a level and not in the table."`
	Quarantine *quarantineBody  `json:"quarantine,omitempty" doc:"Counters of the quarantine: added = records + replayed + discarded + expired + lost; left out for a sink that never had a record in it."`
	Rejected   map[string]int64 `json:"rejected" doc:"Records that were not stored since the service was started, by reason."`
	Table      *grownTable      `json:"table,omitempty" doc:"Columns of a table that grows; left out for other tables and before the first record."`
	Missing    []missingBody    `json:"missing,omitempty" doc:"Parts of a cluster that did not respond: their records are not counted. Left out if there are none."`
}

type grownTable struct {
	Version int           `json:"version" doc:"Number of the present set of columns, from 1. Versions of the sink that leave the columns alone do not count."`
	Columns []tableColumn `json:"columns" doc:"Columns that new records fill. They are older than the mapping while refused is set, which has the reason."`
	Retired []tableColumn `json:"retired" doc:"Columns that only earlier sets have; they are NULL in new rows."`
	Refused string        `json:"refused,omitempty" doc:"Why the columns of the mapping were refused, so that the earlier columns stay in use; left out if they were not."`
}

type tableColumn struct {
	Name     string `json:"name" doc:"Name of the column."`
	DataType string `json:"dataType,omitempty" doc:"Type of the values, if the column has one."`
	Required bool   `json:"required,omitempty" doc:"It is never NULL."`
}

type lostBody struct {
	Expired   int64 `json:"expired" doc:"Given up after the retention of failed imports."`
	Damaged   int64 `json:"damaged" doc:"Not given back by the disk."`
	Discarded int64 `json:"discarded" doc:"Given up on request."`
}

type filesBody struct {
	Files   []fileBody    `json:"files" doc:"Files of the sink: imported files, waiting files, and files whose last attempt has failed, each by time."`
	Missing []missingBody `json:"missing,omitempty" doc:"Parts of a cluster that did not respond: their files are not listed. Left out if there are none."`
}

// failedFilesBody has at most maxFailedFiles files.
type failedFilesBody struct {
	TotalCount int              `json:"totalCount" doc:"Number of such files of all pages."`
	NextID     string           `json:"nextId,omitempty" doc:"The afterId of the next page. Left out on the last page."`
	Files      []failedFileBody `json:"files" doc:"The files by time, at most 1,000."`
}

type failedFileBody struct {
	SourceID string `json:"sourceId" doc:"Source of the file."`
	SinkID   string `json:"sinkId" doc:"Sink of the file. It may have been removed."`
	fileBody
}

// missingBody is a part of a cluster that is missing from a response.
type missingBody struct {
	Node     string `json:"node" doc:"Name of the node that has taken the records."`
	Instance string `json:"instance" doc:"Name of the part of its data, which another node may take over."`
	Reason   string `json:"reason" doc:"Why nothing is known of it."`
}

func newMissing(list []catalog.Missing) []missingBody {
	return convert(list, func(m catalog.Missing) missingBody {
		return missingBody{Node: m.Node, Instance: m.Instance, Reason: m.Reason}
	})
}

type fileBody struct {
	FileID       string         `json:"fileId" doc:"Id of the file, as drivers and logs have it."`
	State        string         `json:"state" enum:"writing,closing,importing,imported,expired,discarded" doc:"How far it is."`
	OpenedAt     string         `json:"openedAt" doc:"Time in UTC with milliseconds of its first record."`
	ClosingAt    string         `json:"closingAt,omitempty" doc:"Time in UTC with milliseconds from which it accepts no records."`
	ImportingAt  string         `json:"importingAt,omitempty" doc:"Time in UTC with milliseconds when all of it was in staging."`
	ImportedAt   string         `json:"importedAt,omitempty" doc:"Time in UTC with milliseconds when it was in the table."`
	RetryAttempt int            `json:"retryAttempt,omitempty" doc:"Number of failed attempts of the present step."`
	RetryReason  string         `json:"retryReason,omitempty" doc:"Why the last attempt has failed."`
	RetryAfter   string         `json:"retryAfter,omitempty" doc:"Time in UTC with milliseconds of the next attempt."`
	Refused      *fileRefusal   `json:"refused,omitempty" doc:"First row that the target has refused with the last attempt; left out if it has failed for another reason."`
	Statistics   fileStatistics `json:"statistics" doc:"Records of the file."`
}

type fileRefusal struct {
	Row     int64  `json:"row" doc:"Number of the row in the file, from 0; -1 if the target does not say which it is."`
	Column  string `json:"column,omitempty" doc:"Name of the column, if the target says it."`
	Reason  string `json:"reason" doc:"Code of the target, such as an SQLSTATE."`
	Message string `json:"message,omitempty" doc:"What the target says."`
}

type fileStatistics struct {
	Total  levelBody  `json:"total" doc:"Sum of the levels."`
	Levels levelsBody `json:"levels" doc:"Where the records are."`
}

type aggregationBody struct {
	ProjectID int              `json:"projectId" doc:"Id of the project."`
	BranchID  int              `json:"branchId" doc:"Id of the branch."`
	Page      pageBody         `json:"page" doc:"Which part of the list it is."`
	Sources   []aggregatedBody `json:"sources" doc:"Sources by id, with their sinks."`
}

type aggregatedBody struct {
	sourceBody
	Sinks []aggregatedSink `json:"sinks" doc:"Sinks of the source by id."`
}

type aggregatedSink struct {
	sinkBody
	Statistics aggregatedStatistics `json:"statistics" doc:"Records of the sink."`
}

type aggregatedStatistics struct {
	totalBody
	Files []fileBody `json:"files" doc:"Files of the sink."`
}

type testBody struct {
	ProjectID int         `json:"projectId" doc:"Id of the project."`
	BranchID  int         `json:"branchId" doc:"Id of the branch."`
	SourceID  string      `json:"sourceId" doc:"Id of the source."`
	Tables    []testTable `json:"tables" doc:"What the sample becomes, by sink."`
}

type testTable struct {
	SinkID  string    `json:"sinkId" doc:"Id of the sink."`
	TableID string    `json:"tableId" doc:"Destination: stage.bucket.table."`
	Target  string    `json:"target,omitempty" doc:"Name of the target of the table; left out for the default target."`
	Rows    []testRow `json:"rows" doc:"The row of the sample."`
	Refused string    `json:"refused,omitempty" doc:"Why the columns of the mapping were refused. The test shows them; events are stored with earlier ones."`
}

type testRow struct {
	Columns []testColumn `json:"columns" doc:"Values in the order of the columns."`
}

type testColumn struct {
	Name     string  `json:"name" doc:"Name of the column."`
	DataType string  `json:"dataType,omitempty" doc:"Type of the value, if the column has one."`
	Value    *string `json:"value" doc:"Text of the cell; null is NULL, which only columns with a dataType have."`
	Error    string  `json:"error,omitempty" doc:"Why the column has no value."`
	Reason   string  `json:"reason,omitempty" doc:"The same as the word under which the statistics count it."`
}

// testFailure is the error of a payload test with the cells that were rendered despite it.
type testFailure struct {
	wire.ErrorBody
	testBody
}

type indexBody struct {
	API           string `json:"api" doc:"Name of the API."`
	Documentation string `json:"documentation" doc:"Address of its description."`
}

func newVersionBody(v catalog.Version) versionBody {
	return versionBody{Number: v.Number, Hash: v.Hash, Description: v.Description, At: catalog.Time(v.At), By: byBody(v.By)}
}

func newCreated(m catalog.Mark) createdBody {
	return createdBody{At: catalog.Time(m.At), By: byBody(m.By)}
}

func newDeleted(m *catalog.Mark) *createdBody {
	if m == nil {
		return nil
	}
	b := newCreated(*m)
	return &b
}

func newDisabled(m *catalog.Mark) *disabledBody {
	if m == nil {
		return nil
	}
	return &disabledBody{At: catalog.Time(m.At), By: byBody(m.By), Reason: m.Reason}
}

func newSetting(s catalog.Setting) settingBody {
	return settingBody{
		Key: s.Key, Type: s.Type, Description: s.Description, Value: s.Value, DefaultValue: s.Default,
		Overwritten: s.Overwritten, Origin: s.Origin, Protected: s.Protected, Validation: s.Validation, Warning: s.Warning,
	}
}

func newLevel(l buffer.Level) levelBody {
	return levelBody{
		FirstRecordAt: timeText(l.FirstAt), LastRecordAt: timeText(l.LastAt),
		RecordsCount: l.Rows, CompressedSize: l.StoredBytes, UncompressedSize: l.RawBytes,
	}
}

// timeText is empty for the zero time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return catalog.Time(t)
}

// newLevels leaves empty levels out.
func newLevels(local, staging, target buffer.Level) levelsBody {
	some := func(l buffer.Level) *levelBody {
		if l.Rows <= 0 {
			return nil
		}
		b := newLevel(l)
		return &b
	}
	return levelsBody{Local: some(local), Staging: some(staging), Target: some(target)}
}

func newTotal(s catalog.Statistics) totalBody {
	b := totalBody{
		Total: newLevel(s.Total), Levels: newLevels(s.Local, s.Staging, s.Target), Rejected: s.Rejected,
		Lost:    lostBody{Expired: s.Expired.Rows, Damaged: s.Damaged.Rows, Discarded: s.Discarded.Rows},
		Missing: newMissing(s.Missing),
	}
	if b.Rejected == nil {
		b.Rejected = map[string]int64{}
	}
	b.Quarantine = newQuarantine(s.Quarantine)
	if s.Version > 0 {
		b.Table = &grownTable{Version: s.Version, Columns: convert(s.Columns, newTableColumn), Retired: convert(s.Retired, newTableColumn), Refused: s.Refused}
	}
	return b
}

func newTableColumn(c datatype.Column) tableColumn {
	return tableColumn{Name: c.Name, DataType: string(c.Type), Required: c.Required}
}

func newFile(f buffer.FileStats) fileBody {
	b := fileBody{FileID: f.ID, State: string(f.State), OpenedAt: catalog.Time(f.OpenedAt), ClosingAt: timeText(f.ClosedAt), ImportingAt: timeText(f.ImportingAt)}
	b.Statistics.Total = newLevel(f.Level)
	var none buffer.Level
	switch f.State {
	case buffer.FileImported:
		b.ImportedAt = timeText(f.FinishedAt)
		b.Statistics.Levels = newLevels(none, none, f.Level)
	case buffer.FileImporting:
		b.Statistics.Levels = newLevels(none, f.Level, none)
	case buffer.FileWriting, buffer.FileClosing:
		b.Statistics.Levels = newLevels(f.Level, none, none)
	}
	if f.Attempt > 0 {
		b.RetryAttempt, b.RetryReason, b.RetryAfter = f.Attempt, f.RetryReason, timeText(f.RetryAfter)
		if r := f.Refused; r != nil {
			b.Refused = &fileRefusal{r.Row, r.Column, r.Reason, r.Message}
		}
	}
	return b
}
