// Package erase deletes the records and rows of a person wherever an engine keeps them, and reports what remains in other places:
//
//	report, err := engine.Erase(ctx, erase.Match{Path: "user.email", Value: "ada@example.com"})
//
// It does not change tables. The report has the SQL that does.
package erase

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/textcut"
	"github.com/forebay/forebay/internal/callkey"
	"github.com/forebay/forebay/internal/ids"
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/quarantine"
)

// Match selects the records and rows of a person for the engine's Erase. At least one of Path, Header and Text is set. A record is selected if it meets
// all of them that are set.
type Match struct {
	// Path is a path in the body, as in [mapping.Path], and Value the body's value there, which is the text of a string, or the JSON of another value.
	// The comparison is exact. A row that is already mapped has it in the column that the mapping fills from the same path, or in a column with the
	// body.
	Path, Value string
	// Header is the name of a request header in any case, and HeaderValue one of its values. The comparison is exact. A row that is already mapped
	// has it only in a column with all headers. Without other conditions, the header Idempotency-Key also selects the receipts of the calls with this
	// key, or of Go calls with this Once.Key. A repetition of such a call stores its records again.
	Header, HeaderValue string
	// Text is part of the record in any case, at least 3 bytes without the spaces around it, with a letter or a digit. It is part of the body, of a
	// header as "Name: value", of host, path, query or the address of the sender. Escapes of JSON and of forms are read. Of a row that is already mapped
	// it is part of a cell of an untyped column, or of a string, json, uuid or int64, but not of a column that the engine fills, such as the time of the
	// arrival.
	Text string
	// Sources are the ids of the sources to search, defined or removed. Default: all.
	Sources []string
	// Wait bounds how long Erase waits for rows on their way until they are in staging or in the archive, and until the target has
	// responded. Rows that wait longer are reported as left. Default: 30 seconds.
	Wait time.Duration
	// DryRun finds and reports, and changes nothing.
	DryRun bool
	// By and Reason are for the log. They say who asks, up to 200 bytes, and why, up to 4,000 bytes. They are optional.
	By, Reason string
}

// minText is the least length of Match.Text. A shorter text would select the records of other people.
const minText = 3

// Validate reports all problems at once.
func (m Match) Validate() error {
	var problems []error
	report := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("Match."+format, args...))
	}
	if m.Path == "" && m.Value == "" && m.Header == "" && m.HeaderValue == "" && m.Text == "" {
		problems = append(problems, errors.New("the Match is empty, which would select every record: set Path and Value, Header and HeaderValue, or Text"))
	}
	if (m.Path == "") != (m.Value == "") {
		report("Path and Value belong together: set both")
	}
	if (m.Header == "") != (m.HeaderValue == "") {
		report("Header and HeaderValue belong together: set both")
	}
	if m.Path != "" {
		if _, err := mapping.ParsePath(m.Path); err != nil {
			report("Path: %w: write a path such as user.email", err)
		}
	}
	if text := strings.TrimSpace(m.Text); m.Text != "" && (len(text) < minText || !strings.ContainsFunc(text, isWordRune)) {
		report("Text has %d bytes without the spaces around it, and a text of less than %d, or without a letter or digit, selects the records of other people: write more of it", len(text), minText)
	}
	for _, id := range m.Sources {
		if err := ids.Validate(id); err != nil {
			report("Sources: %w", err)
		}
	}
	if m.Wait < 0 {
		report("Wait is %s, must not be negative", m.Wait)
	}
	return errors.Join(problems...)
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// hash names the conditions in the log, which must not have the values.
func (m Match) hash() string {
	text, err := json.Marshal([]any{m.Path, m.Value, http.CanonicalHeaderKey(m.Header), m.HeaderValue, strings.ToLower(m.Text), m.Sources})
	if err != nil {
		panic(fmt.Sprintf("forebay: encode %T: %v", m, err)) // it holds texts
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// The places of an [Place].
const (
	// PlaceWaiting are rows of a sink in memory, on local disk and in staging.
	PlaceWaiting = "waiting"
	// PlaceQuarantine is the quarantine of a sink.
	PlaceQuarantine = "quarantine"
	// PlaceArchive are the raw records of an archive.
	PlaceArchive = "archive"
	// PlaceCopy is a checkpoint in the data directory, or a folder that was set aside there. Erase does not read it.
	PlaceCopy = "copy"
	// PlaceDamage is a record of damage, which may have bytes of rows. Erase does not read it.
	PlaceDamage = "damage"
	// PlaceKeys are the receipts of calls with a key, of a source or of all, by call. They hold hashes, so that only the whole key finds them. See
	// Match.Header.
	PlaceKeys = "keys"
)

// Place is what Erase has found in one place.
type Place struct {
	// Place is one of the constants above, such as [PlaceQuarantine].
	Place string `json:"place"`
	// Name is SOURCE/SINK, the name of an archive, or a path below the data directory.
	Name string `json:"name,omitempty"`
	// Searched counts the records or rows that were read, and Found the matching ones.
	Searched int64 `json:"searched"`
	Found    int64 `json:"found"`
	// Erased are gone from the place. Left are still there. In a dry run they are all that were found.
	Erased int64 `json:"erased"`
	Left   int64 `json:"left"`
	// Moved counts rows that have come into their table meanwhile. The SQL of the table deletes them.
	Moved int64 `json:"moved,omitempty"`
	// Unreadable counts records whose body has no fields, so that Match.Path says nothing about them. Match.Text finds them.
	Unreadable int64 `json:"unreadable,omitempty"`
	// At is the time of the place, if it has one, such as when a copy was made.
	At time.Time `json:"at,omitzero"`
	// Note says what else to know, such as why something is left and what removes it.
	Note string `json:"note,omitempty"`
}

// Table is a table that may have rows of the person. Erase does not change tables.
type Table struct {
	// Source and Sink are ids, Target is the name of the target, and Table the id of the table.
	Source string `json:"source"`
	Sink   string `json:"sink"`
	Target string `json:"target,omitempty"`
	Table  string `json:"table"`
	// SQL is the statement that deletes the rows, in the dialect of the target. It has the values of the Match. It is empty for a target without SQL.
	SQL string `json:"sql,omitempty"`
	// Exact is set if the mapping tells the columns that have the values. Otherwise the statement searches in all columns with text, and may select
	// rows of other people, so look at them with SELECT first.
	Exact bool `json:"exact,omitempty"`
	// Note says what to do if there is no SQL, or what to know about it.
	Note string `json:"note,omitempty"`
}

// Report is the result of the engine's Erase.
type Report struct {
	// Match names the conditions as the line in the log does. It is made of a hash. Anyone who guesses the values can check the guess.
	Match string `json:"match"`
	// DryRun is set if nothing was changed.
	DryRun bool `json:"dryRun"`
	// Places are sorted by place, and within a place by name. Places that the engine does not have are not listed.
	Places []Place `json:"places"`
	// Tables are sorted by source and sink.
	Tables []Table `json:"tables"`
}

// Left returns how many records and rows were found and not erased. Rows that have come into their tables are not among them.
func (r *Report) Left() (n int64) {
	for _, p := range r.Places {
		n += p.Left
	}
	return n
}

// Found and Erased return the sums over all places.
func (r *Report) Found() (n int64) {
	for _, p := range r.Places {
		n += p.Found
	}
	return n
}

// Erased returns how many records and rows are gone.
func (r *Report) Erased() (n int64) {
	for _, p := range r.Places {
		n += p.Erased
	}
	return n
}

var (
	// ErrRuns is returned for a replay during an erasure, whose records the replay could read before they are erased.
	ErrRuns = errors.New("records are being erased")
	// errNoReplace is why an archive keeps its records.
	errNoReplace = errors.New("the archive cannot replace an object: erase the archive as a whole, or wait until its retention removes the objects")
)

const (
	defaultWait = 30 * time.Second
	// maxBy and maxReason bound Match.By and Match.Reason in the log, in bytes.
	maxBy, maxReason = 200, 4_000
	// discardedAtOnce is how many rejected records are discarded in one step.
	discardedAtOnce = 256
)

// Host is the engine, as an erasure needs it.
type Host interface {
	// Sources returns the defined sources, sorted by id.
	Sources() []Source
	// Source returns a defined source, or false if there is none.
	Source(id string) (Source, bool)
	// UnknownSource returns the error for a source that is defined nowhere and has left nothing.
	UnknownSource(id string) error
	// Target returns the target with a name, or nil if the engine has none.
	Target(name string) driver.Target
	// Quarantine returns the quarantine of a sink, even of a removed one.
	Quarantine(source, sink string) quarantine.Quarantine
	// FlushArchive returns when the raw records of a source that were accepted before the call are in their archive.
	FlushArchive(ctx context.Context, source string) error
	// LockArchive keeps an archive from being erased as a whole until unlock is called.
	LockArchive(ctx context.Context, archive string) (unlock func(), err error)
}

// Source is a defined source.
type Source struct {
	// ID is the id of the source, and Archive the name of its archive. Archive is empty if the source keeps no raw records.
	ID, Archive string
	// Sinks are all sinks, including the disabled ones.
	Sinks []Sink
}

// Sink is a sink of a source.
type Sink struct {
	// ID is the id of the sink, Table the id of its table, and Target the name of the target of the table.
	ID, Table, Target string
	// Columns are the columns of the table.
	Columns mapping.Columns
}

// Archive is the part of the archive of an engine that an erasure reads. The engine's Archive has the contract.
type Archive interface {
	// Objects returns the names of the objects that may have records of a time range, in ascending order.
	Objects(ctx context.Context, archive string, from, to time.Time) ([]string, error)
	// Open returns the rows of an object as CSV.
	Open(ctx context.Context, archive, object string) (io.ReadCloser, error)
}

// Replacer is an archive whose objects can be replaced. The engine's ArchiveReplacer has the contract.
type Replacer interface {
	// Archives returns the names of all archives, in ascending order.
	Archives(ctx context.Context) ([]string, error)
	// Replace gives an object other rows, in one step.
	Replace(ctx context.Context, archive, object string, rows io.Reader) error
}

// Config is what an erasure reads and changes.
type Config struct {
	// Buffer has the rows and quarantines. Its folder is LocalDir in the data directory Dir, on the disk of Tuning.
	Buffer        *buffer.Buffer
	Dir, LocalDir string
	Tuning        buffer.Tuning
	// Archive is nil if the engine has none.
	Archive Archive
	// Mapping are the options of the engine for its mappers.
	Mapping mapping.Options
	// Log gets the event of an erasure.
	Log *slog.Logger
}

// Erasure is one call of the engine's Erase.
type Erasure struct {
	Config
	host     Host
	match    *matcher
	archives []string // in the archive and of the sources
	report   Report
	problems []error
}

// New returns an erasure, or the error of [Match.Validate]. The caller runs it once.
func New(c Config, host Host, m Match) (*Erasure, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	m.Wait = cmp.Or(m.Wait, defaultWait)
	match, err := newMatcher(m, c.Mapping)
	if err != nil {
		return nil, err
	}
	return &Erasure{Config: c, host: host, match: match, report: Report{Match: m.hash(), DryRun: m.DryRun}}, nil
}

// wants reports whether a source is searched.
func (er *Erasure) wants(source string) bool {
	return len(er.match.Sources) == 0 || slices.Contains(er.match.Sources, source)
}

// Run erases, and reports. It continues with the other places after a failure in one. The error joins the failures, and the report is valid.
func (er *Erasure) Run(ctx context.Context) (Report, error) {
	if err := er.findArchives(ctx); err != nil {
		er.problems = append(er.problems, err)
	}
	if err := er.known(); err != nil {
		return Report{}, fmt.Errorf("erase: %w", err)
	}
	// Rows move from the first places to the later ones.
	for _, do := range []func(context.Context) error{
		er.arrivals, er.eraseReplayable, er.eraseWaiting, er.eraseQuarantines, er.eraseArchives, er.eraseKeys, er.purge, er.listOthers,
	} {
		err := do(ctx)
		if err = cmp.Or(err, context.Cause(ctx)); err != nil {
			er.problems = append(er.problems, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	er.report.Tables = er.tables()
	slices.SortFunc(er.report.Places, func(a, b Place) int { return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Name, b.Name)) })
	err := errors.Join(er.problems...)
	if m := er.match; !m.DryRun {
		er.Log.InfoContext(ctx, "erased", "match", er.report.Match, "found", er.report.Found(), "erased", er.report.Erased(), "left", er.report.Left(),
			"failed", err != nil, "by", textcut.Short(m.By, maxBy), "reason", textcut.Short(m.Reason, maxReason))
	}
	if err != nil {
		err = fmt.Errorf("erase: %w", err)
	}
	return er.report, err
}

// known refuses a source that is nowhere, because its name is probably wrong, and an erasure that has found nothing would look like a success.
func (er *Erasure) known() error {
	sinks := er.Buffer.Stats().Sinks
	for _, id := range er.match.Sources {
		_, defined := er.host.Source(id)
		if !defined && !slices.ContainsFunc(sinks, func(s buffer.SinkStats) bool { return strings.HasPrefix(s.ID, id+"/") }) &&
			!slices.ContainsFunc(er.archives, func(name string) bool { return sourceOfArchive(name) == id }) {
			return er.host.UnknownSource(id)
		}
	}
	return nil
}

// arrivals says that files and rejected records of other engines arrive. Nothing searches them before they have arrived.
func (er *Erasure) arrivals(context.Context) error {
	var problems []error
	for _, a := range er.Buffer.Moves().Arrivals() {
		problems = append(problems, fmt.Errorf("%d files and %d rejected records arrive from instance %s and are not searched: %w", a.Files, a.Records, a.Instance, buffer.ErrFileMoves))
	}
	return errors.Join(problems...)
}

// add notes the records found in a place. A quarantine is searched twice.
func (er *Erasure) add(p Place) {
	if i := slices.IndexFunc(er.report.Places, func(o Place) bool { return p.Place == PlaceQuarantine && o.Place == p.Place && o.Name == p.Name }); i >= 0 {
		before := er.report.Places[i].Erased // the other records are found again
		p.Searched += before
		p.Found += before
		p.Erased += before
		er.report.Places = slices.Delete(er.report.Places, i, i+1)
	}
	p.Left = p.Found - p.Erased - p.Moved
	er.report.Places = append(er.report.Places, p)
}

// eraseReplayable erases rejected records before rows are searched, because a replay of the quarantine makes them rows. The later search finds
// records that arrive meanwhile, and reports the failures.
func (er *Erasure) eraseReplayable(ctx context.Context) error {
	if !er.match.DryRun {
		_ = er.eraseQuarantines(ctx)
	}
	return nil
}

// eraseQuarantines erases rejected records.
func (er *Erasure) eraseQuarantines(ctx context.Context) error {
	var problems []error
	for _, s := range er.Buffer.Stats().Sinks {
		source, sink, _ := strings.Cut(s.ID, "/")
		if !er.wants(source) || s.Quarantine.Added == 0 {
			continue
		}
		p := Place{Place: PlaceQuarantine, Name: s.ID}
		if err := er.eraseQuarantine(ctx, source, sink, &p); err != nil {
			p.Note = "It was not searched to its end."
			problems = append(problems, fmt.Errorf("quarantine of %s: %w", s.ID, err))
		}
		er.add(p)
	}
	return errors.Join(problems...)
}

func (er *Erasure) eraseQuarantine(ctx context.Context, source, sink string, p *Place) error {
	q := er.host.Quarantine(source, sink)
	var ids []string
	flush := func() error {
		if len(ids) == 0 || er.match.DryRun {
			return nil
		}
		n, err := q.Discard(ctx, ids...)
		p.Erased += int64(n)
		ids = ids[:0]
		return err
	}
	rules := er.rules(source, sink)
	var bad failures
	for r, err := range q.List(ctx, quarantine.Filter{}) {
		if err != nil {
			return errors.Join(err, flush())
		}
		c, data, err := quarantine.Read(ctx, q, r.ID)
		if errors.Is(err, buffer.ErrUnknownRejected) { // it has left the quarantine meanwhile
			continue
		}
		if err != nil { // the others are searched all the same, unless the disk fails
			if bad.add(err); bad.many() || ctx.Err() != nil {
				return errors.Join(bad.err(), flush())
			}
			continue
		}
		bad.row = 0
		p.Searched++
		found, readable := er.match.rejected(&c, data, rules)
		if !readable {
			p.Unreadable++
		}
		if !found {
			continue
		}
		p.Found++
		if ids = append(ids, r.ID); len(ids) >= discardedAtOnce {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return errors.Join(bad.err(), flush())
}

// failures are errors of records or objects that do not keep an erasure from the others.
type failures struct {
	first  []error
	n, row int // all, and those in a row
}

// mostFailures in a row end a search because then more than a record cannot be read. An error shows shownFailures of them.
const mostFailures, shownFailures = 10, 3

func (f *failures) add(err error) {
	if f.n++; f.n <= shownFailures {
		f.first = append(f.first, err)
	}
	f.row++
}

func (f *failures) many() bool { return f.row >= mostFailures }

func (f *failures) err() error {
	if f.n > shownFailures {
		return errors.Join(append(f.first, fmt.Errorf("%d more failures", f.n-shownFailures))...)
	}
	return errors.Join(f.first...)
}

// eraseKeys erases the receipts of calls whose key is the only condition.
func (er *Erasure) eraseKeys(ctx context.Context) error {
	m := er.match
	if m.header != callkey.Header || m.Path != "" || m.Text != "" {
		return nil
	}
	for _, source := range er.sources() {
		p := Place{Place: PlaceKeys, Name: source}
		for _, name := range callkey.All(m.HeaderValue) {
			claim, err := er.Buffer.Claim(ctx, kept.CallKey(source, name))
			if err != nil {
				return err
			}
			if len(claim.Receipts()) > 0 {
				p.Searched, p.Found = p.Searched+1, p.Found+1
				if !m.DryRun {
					p.Erased++
					claim.Erase()
				}
			}
			claim.Release()
		}
		if p.Found > 0 {
			er.add(p)
		}
	}
	return er.Buffer.Sync(ctx)
}

// sources returns the sources that are searched, defined or removed.
func (er *Erasure) sources() []string {
	all := slices.Clone(er.match.Sources)
	if len(all) == 0 {
		for _, source := range er.host.Sources() {
			all = append(all, source.ID)
		}
		for _, s := range er.Buffer.Stats().Sinks {
			source, _, _ := strings.Cut(s.ID, "/")
			all = append(all, source)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// purge takes the bytes of deleted records out of the files of the data directory, including bytes that an interrupted call has left.
func (er *Erasure) purge(ctx context.Context) error {
	if er.match.DryRun {
		return nil
	}
	return er.Buffer.Purge(ctx)
}

// listOthers reports places that Erase does not search.
func (er *Erasure) listOthers(ctx context.Context) error {
	if st := er.Buffer.Stats(); st.Keys > 0 {
		// A repeated call without its key would store the records again.
		er.add(Place{Place: PlaceKeys, Note: fmt.Sprintf("The keys of %d calls are known, and stay until %s so that a repeated call does not store its records again. "+
			"Of each call there are hashes of the key and of the content. At most %d of the calls had records that were found.",
			st.Keys, st.KeysUntil.UTC().Format(time.RFC3339), min(st.Keys, er.report.Found()))})
	}
	list, err := er.Buffer.Damaged(ctx)
	for _, d := range list {
		note := ""
		switch source, _, _ := strings.Cut(d.SinkID, "/"); {
		case d.SinkID != "" && !er.wants(source):
		case len(d.Data) > 0:
			note = "The record has bytes of damaged rows. Forget it when you have read it."
		case d.SliceID != "" && d.FirstChunk < 0:
			note = "The slice " + d.SliceID + " was damaged. If staging has it, delete its object when you have read it."
		}
		if note != "" {
			er.add(Place{Place: PlaceDamage, Name: d.ID, At: d.At, Note: note})
		}
	}
	disk := localdisk.Of(er.Tuning)
	for _, c := range []struct{ folder, prefix, note string }{
		{"checkpoints", "", "Checkpoint. Delete the folder."},
		{er.LocalDir, "damaged-", "Local level that was set aside. Delete the folder when you have read it."},
		{"", "fenced-", "Engine that was set aside. Delete the folder when you have salvaged its rows."},
	} {
		names, listed := disk.List(filepath.Join(er.Dir, c.folder))
		if listed != nil {
			continue // there are none
		}
		slices.Sort(names)
		for _, name := range names {
			info, statted := disk.Stat(filepath.Join(er.Dir, c.folder, name))
			if statted == nil && info.IsDir() && strings.HasPrefix(name, c.prefix) {
				er.add(Place{Place: PlaceCopy, Name: filepath.ToSlash(filepath.Join(c.folder, name)), At: info.ModTime().UTC(), Note: c.note})
			}
		}
	}
	return err
}

// cutNote shortens the text of an error for a note.
func cutNote(err error) string {
	text := err.Error()
	if utf8.RuneCountInString(text) > 300 {
		text = textcut.Short(text, 300)
	}
	return text
}
