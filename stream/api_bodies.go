package stream

import (
	"encoding/json"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/mapping"
)

// The bodies of the Stream API. Requests are checked by the schemas that are made of these types, and the description of
// the API is made of the same schemas.

type sourceCreate struct {
	SourceID    string       `json:"sourceId,omitempty" minLength:"1" maxLength:"48" doc:"Id of the source. Made from the name if it is not given."`
	Type        string       `json:"type" enum:"http,otlp" doc:"Kind of the source."`
	Name        string       `json:"name" minLength:"1" maxLength:"40"`
	Description string       `json:"description,omitempty" maxLength:"4096"`
	Sinks       []sinkCreate `json:"sinks,omitempty" maxItems:"100" doc:"Sinks that are created with the source."`
}

type sourceUpdate struct {
	Type              *string `json:"type,omitempty" enum:"http,otlp" doc:"Another kind gives the source a new secret."`
	Name              *string `json:"name,omitempty" minLength:"1" maxLength:"40"`
	Description       *string `json:"description,omitempty" maxLength:"4096"`
	ChangeDescription string  `json:"changeDescription,omitempty" maxLength:"4096" doc:"Text of the new version."`
}

type sinkCreate struct {
	SinkID         string      `json:"sinkId,omitempty" minLength:"1" maxLength:"48" doc:"Id of the sink. Made from the name if it is not given."`
	Type           string      `json:"type" enum:"table"`
	Name           string      `json:"name" minLength:"1" maxLength:"40"`
	Description    string      `json:"description,omitempty" maxLength:"4096"`
	AllowedSignals []string    `json:"allowedSignals,omitempty" enum:"logs,metrics,traces" doc:"Signals of an OTLP source that the sink takes; none means all."`
	Table          tableCreate `json:"table"`
}

type tableCreate struct {
	Type    string  `json:"type" doc:"Kind of the table; one value is allowed."`
	TableID string  `json:"tableId" minLength:"1" doc:"Destination: stage.bucket.table. It is created if there is none."`
	Mapping columns `json:"mapping"`
}

type columns struct {
	Columns []column `json:"columns" minItems:"1" maxItems:"100"`
}

type column struct {
	Type          string          `json:"type" enum:"uuid,datetime,ip,body,headers,path,template"`
	Name          string          `json:"name" doc:"Name of the column, unique in the mapping."`
	Path          *string         `json:"path,omitempty" doc:"Field of the event; required in columns of type path. The empty path is the whole event."`
	DefaultValue  json.RawMessage `json:"defaultValue,omitempty" doc:"Value of a path column whose field cannot be had."`
	DefaultOnNull bool            `json:"defaultOnNull,omitempty" doc:"Use defaultValue also for a field that is null."`
	RawString     *bool           `json:"rawString,omitempty" doc:"Store a JSON string without quotes; columns of type path and template."`
	Template      *templateBody   `json:"template,omitempty" doc:"Required in columns of type template."`
}

type templateBody struct {
	Language string `json:"language" enum:"jsonnet"`
	Content  string `json:"content" minLength:"1" maxLength:"4096"`
}

type sinkUpdate struct {
	Type              *string      `json:"type,omitempty" enum:"table"`
	Name              *string      `json:"name,omitempty" minLength:"1" maxLength:"40"`
	Description       *string      `json:"description,omitempty" maxLength:"4096"`
	ChangeDescription string       `json:"changeDescription,omitempty" maxLength:"4096" doc:"Text of the new version."`
	AllowedSignals    *[]string    `json:"allowedSignals,omitempty" enum:"logs,metrics,traces" doc:"An empty list means all."`
	Table             *tableUpdate `json:"table,omitempty"`
}

type tableUpdate struct {
	Type    *string  `json:"type,omitempty"`
	TableID *string  `json:"tableId,omitempty" minLength:"1"`
	Mapping *columns `json:"mapping,omitempty" doc:"Replaces all columns."`
}

type settingsUpdate struct {
	ChangeDescription string          `json:"changeDescription,omitempty" maxLength:"4096" doc:"Text of the new version."`
	Settings          []settingUpdate `json:"settings,omitempty"`
}

type settingUpdate struct {
	Key   string          `json:"key" minLength:"1"`
	Value json.RawMessage `json:"value" doc:"Null puts the setting back to what it inherits."`
}

type byBody = catalog.By

type createdBody struct {
	At string `json:"at"`
	By byBody `json:"by"`
}

type disabledBody struct {
	At     string `json:"at"`
	By     byBody `json:"by"`
	Reason string `json:"reason"`
}

type versionBody struct {
	Number      int    `json:"number" minimum:"1"`
	Hash        string `json:"hash"`
	Description string `json:"description"`
	At          string `json:"at"`
	By          byBody `json:"by"`
	Content     any    `json:"content,omitempty" doc:"What the version holds; in the detail of a version only."`
}

type sourceBody struct {
	ProjectID      int           `json:"projectId"`
	BranchID       int           `json:"branchId"`
	SourceID       string        `json:"sourceId"`
	Type           string        `json:"type" enum:"http,otlp"`
	Name           string        `json:"name"`
	Description    string        `json:"description"`
	HTTP           *httpBody     `json:"http,omitempty"`
	OTLP           *otlpBody     `json:"otlp,omitempty"`
	OldSecretUntil string        `json:"oldSecretUntil,omitempty" doc:"Time until which the secret before this one is accepted too; only while it is."`
	Version        versionBody   `json:"version"`
	Created        createdBody   `json:"created"`
	Deleted        *createdBody  `json:"deleted,omitempty"`
	Disabled       *disabledBody `json:"disabled,omitempty"`
}

type httpBody struct {
	URL string `json:"url" doc:"Where events are posted."`
}

type otlpBody struct {
	URL     string `json:"url" doc:"Endpoint with the secret."`
	BaseURL string `json:"baseUrl" doc:"Endpoint for clients that send the secret as bearer token."`
	Secret  string `json:"secret"`
}

type sinkBody struct {
	ProjectID      int           `json:"projectId"`
	BranchID       int           `json:"branchId"`
	SourceID       string        `json:"sourceId"`
	SinkID         string        `json:"sinkId"`
	Type           string        `json:"type" enum:"table"`
	Name           string        `json:"name"`
	Description    string        `json:"description"`
	AllowedSignals []string      `json:"allowedSignals,omitempty"`
	Table          tableBody     `json:"table"`
	Version        versionBody   `json:"version"`
	Created        createdBody   `json:"created"`
	Deleted        *createdBody  `json:"deleted,omitempty"`
	Disabled       *disabledBody `json:"disabled,omitempty"`
}

type tableBody struct {
	Type    string  `json:"type"`
	TableID string  `json:"tableId"`
	Mapping columns `json:"mapping"`
}

type pageBody struct {
	Limit      int    `json:"limit"`
	TotalCount int    `json:"totalCount"`
	AfterID    string `json:"afterId"`
	LastID     string `json:"lastId"`
}

type sourcesBody struct {
	ProjectID int          `json:"projectId"`
	BranchID  int          `json:"branchId"`
	Page      pageBody     `json:"page"`
	Sources   []sourceBody `json:"sources"`
}

type sinksBody struct {
	ProjectID int        `json:"projectId"`
	BranchID  int        `json:"branchId"`
	SourceID  string     `json:"sourceId"`
	Page      pageBody   `json:"page"`
	Sinks     []sinkBody `json:"sinks"`
}

type versionsBody struct {
	Versions []versionBody `json:"versions"`
	Page     pageBody      `json:"page"`
}

type settingsBody struct {
	Settings []settingBody `json:"settings"`
}

type settingBody struct {
	Key          string `json:"key"`
	Type         string `json:"type"`
	Description  string `json:"description"`
	Value        any    `json:"value"`
	DefaultValue any    `json:"defaultValue"`
	Overwritten  bool   `json:"overwritten" doc:"The source or sink has a value of its own."`
	Origin       string `json:"origin" enum:"default,source,sink" doc:"Where the value comes from."`
	Protected    bool   `json:"protected" doc:"Only the operator can change it."`
	Validation   string `json:"validation,omitempty"`
}

type taskBody struct {
	TaskID     string       `json:"taskId"`
	Type       string       `json:"type"`
	URL        string       `json:"url"`
	Status     string       `json:"status" enum:"processing,success,error"`
	IsFinished bool         `json:"isFinished"`
	CreatedAt  string       `json:"createdAt"`
	FinishedAt string       `json:"finishedAt,omitempty"`
	Duration   *int64       `json:"duration,omitempty" doc:"Milliseconds."`
	Result     string       `json:"result,omitempty"`
	Error      string       `json:"error,omitempty"`
	Outputs    *outputsBody `json:"outputs,omitempty"`
}

type outputsBody struct {
	URL       string `json:"url"`
	ProjectID int    `json:"projectId"`
	BranchID  int    `json:"branchId"`
	SourceID  string `json:"sourceId"`
	SinkID    string `json:"sinkId,omitempty"`
}

type levelBody struct {
	FirstRecordAt    string `json:"firstRecordAt,omitempty"`
	LastRecordAt     string `json:"lastRecordAt,omitempty"`
	RecordsCount     int64  `json:"recordsCount"`
	CompressedSize   int64  `json:"compressedSize"`
	UncompressedSize int64  `json:"uncompressedSize"`
}

type levelsBody struct {
	Local   *levelBody `json:"local,omitempty"`
	Staging *levelBody `json:"staging,omitempty"`
	Target  *levelBody `json:"target,omitempty"`
}

type totalBody struct {
	Total    levelBody        `json:"total"`
	Levels   levelsBody       `json:"levels"`
	Lost     lostBody         `json:"lost" doc:"Accepted records that are in no level any more and not in the table."`
	Rejected map[string]int64 `json:"rejected" doc:"Records that were not stored since the service was started, by reason."`
}

type lostBody struct {
	Expired   int64 `json:"expired" doc:"Given up after the retention of failed imports."`
	Damaged   int64 `json:"damaged" doc:"Not given back by the disk."`
	Discarded int64 `json:"discarded" doc:"Given up on request."`
}

type filesBody struct {
	Files []fileBody `json:"files"`
}

type fileBody struct {
	State        string         `json:"state" enum:"writing,closing,importing,imported,expired,discarded"`
	OpenedAt     string         `json:"openedAt"`
	ClosingAt    string         `json:"closingAt,omitempty"`
	ImportingAt  string         `json:"importingAt,omitempty"`
	ImportedAt   string         `json:"importedAt,omitempty"`
	RetryAttempt int            `json:"retryAttempt,omitempty"`
	RetryReason  string         `json:"retryReason,omitempty"`
	RetryAfter   string         `json:"retryAfter,omitempty"`
	Statistics   fileStatistics `json:"statistics"`
}

type fileStatistics struct {
	Total  levelBody  `json:"total"`
	Levels levelsBody `json:"levels"`
}

type aggregationBody struct {
	ProjectID int              `json:"projectId"`
	BranchID  int              `json:"branchId"`
	Page      pageBody         `json:"page"`
	Sources   []aggregatedBody `json:"sources"`
}

type aggregatedBody struct {
	sourceBody
	Sinks []aggregatedSink `json:"sinks"`
}

type aggregatedSink struct {
	sinkBody
	Statistics aggregatedStatistics `json:"statistics"`
}

type aggregatedStatistics struct {
	totalBody
	Files []fileBody `json:"files"`
}

type testBody struct {
	ProjectID int         `json:"projectId"`
	BranchID  int         `json:"branchId"`
	SourceID  string      `json:"sourceId"`
	Tables    []testTable `json:"tables"`
}

type testTable struct {
	SinkID  string    `json:"sinkId"`
	TableID string    `json:"tableId"`
	Rows    []testRow `json:"rows"`
}

type testRow struct {
	Columns []testColumn `json:"columns"`
}

type testColumn struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Error string `json:"error,omitempty" doc:"Why the column has no value."`
}

// testFailure is the error of a payload test with what was rendered all the same.
type testFailure struct {
	errorBody
	testBody
}

type indexBody struct {
	API           string `json:"api"`
	Documentation string `json:"documentation"`
}

// catalogColumns returns the columns of a request. The schema has been checked.
func catalogColumns(list []column) mapping.Columns {
	cols := make(mapping.Columns, 0, len(list))
	for _, c := range list {
		col := mapping.Column{Type: mapping.Type(c.Type), Name: c.Name}
		switch {
		case col.Type == mapping.TypePath && c.Path != nil:
			col.Path, col.Default, col.DefaultOnNull = *c.Path, c.DefaultValue, c.DefaultOnNull
		case col.Type == mapping.TypeTemplate && c.Template != nil:
			col.Template = mapping.TemplateSource{Language: c.Template.Language, Content: c.Template.Content}
		}
		if c.RawString != nil && (col.Type == mapping.TypePath || col.Type == mapping.TypeTemplate) {
			col.RawString = *c.RawString
		}
		cols = append(cols, col)
	}
	return cols
}

func bodyColumns(cols mapping.Columns) []column {
	list := make([]column, 0, len(cols))
	for _, c := range cols {
		col := column{Type: string(c.Type), Name: c.Name}
		switch c.Type {
		case mapping.TypePath:
			col.Path, col.DefaultValue, col.DefaultOnNull, col.RawString = &c.Path, c.Default, c.DefaultOnNull, &c.RawString
		case mapping.TypeTemplate:
			col.Template = &templateBody{Language: c.Template.Language, Content: c.Template.Content}
			col.RawString = &c.RawString
		}
		list = append(list, col)
	}
	return list
}

func newVersionBody(v catalog.Version) versionBody {
	return versionBody{Number: v.Number, Hash: v.Hash, Description: v.Description, At: catalog.Time(v.At), By: v.By}
}

func newCreated(m catalog.Mark) createdBody { return createdBody{At: catalog.Time(m.At), By: m.By} }

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
	return &disabledBody{At: catalog.Time(m.At), By: m.By, Reason: m.Reason}
}

func newSettings(list []catalog.Setting) settingsBody {
	b := settingsBody{Settings: make([]settingBody, 0, len(list))}
	for _, s := range list {
		b.Settings = append(b.Settings, settingBody{
			Key: s.Key, Type: s.Type, Description: s.Description, Value: s.Value, DefaultValue: s.Default,
			Overwritten: s.Overwritten, Origin: s.Origin, Protected: s.Protected, Validation: s.Validation,
		})
	}
	return b
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
		Lost: lostBody{Expired: s.Expired.Rows, Damaged: s.Damaged.Rows, Discarded: s.Discarded.Rows},
	}
	if b.Rejected == nil {
		b.Rejected = map[string]int64{}
	}
	return b
}

func newFile(f buffer.FileStats) fileBody {
	b := fileBody{State: string(f.State), OpenedAt: catalog.Time(f.OpenedAt), ClosingAt: timeText(f.ClosedAt), ImportingAt: timeText(f.ImportingAt)}
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
	}
	return b
}
