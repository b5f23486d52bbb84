package extractor

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// State carries values from one run to the next. A first run gets the zero State. Its JSON is
//
//	{"time":{"previousStart":1490000000},"columns":{...},"checkpoint":{...}}
//
// and a text that lacks members, or has others, is read as well. So is a state of the published extractor, with its columns. A checkpoint can contain links and tokens for the next
// page as the API gave them, so keep the state as private as the configuration.
type State struct {
	// Time has the start of the last run that succeeded.
	Time StateTime `json:"time"`
	// Columns are the columns and the names that tables had, in the form of [Tables]. The columns come first in the tables
	// of the next run, and the names stay.
	Columns json.RawMessage `json:"columns,omitempty"`
	// Names belong to the receiver of pages. They are the names of its tables, or sources, by data type. A run passes them on
	// unchanged. A receiver that makes names unique in the order in which data types come must keep them here. Otherwise a
	// resumed run writes rows to the table of another data type.
	Names map[string]string `json:"names,omitempty"`
	// Tokens are refresh tokens that a server gave in place of the configured ones, by a checksum of these. Only the newest
	// works. They are credentials, and durable before they are used.
	Tokens map[string]string `json:"tokens,omitempty"`
	// Cursors and Windows are how far incremental jobs, and jobs with windows, have come, by their names. Windows has the end of
	// the last window in Unix seconds. They change when a job, or a window, is done, together with the checkpoint.
	Cursors map[string]Cursor `json:"cursors,omitempty"`
	Windows map[string]int64  `json:"windows,omitempty"`
	// Spooled is the length of the file of Options.Spool at the checkpoint. When it is not 0 the pages before the checkpoint are there
	// only: [Run] begins from the start.
	Spooled int64 `json:"spooled,omitempty"`
	// Checkpoint is where a run that did not succeed resumes, or nil after a success.
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
}

// StateTime is a part of [State].
type StateTime struct {
	// PreviousStart is in Unix seconds, 0 before the first success.
	PreviousStart int64 `json:"previousStart"`
}

// Checkpoint is the position after the last page of a top-level job whose records, and the records of its children, were
// emitted. A run that is given it begins with the page after, at the time of the first run, and with the counters of
// the stopping conditions as they were. A run with another configuration ignores it with a warning. Attributes whose
// names begin with '#', debug, retryConfig, timeouts and trusted origins may differ because people change these to get a failed
// run through.
type Checkpoint struct {
	// Config identifies the configuration.
	Config string `json:"config"`
	// Run identifies the run among all others, for [Page.ID].
	Run string `json:"run,omitempty"`
	// Start is the time {"time":"currentStart"} in Unix seconds.
	Start int64 `json:"start"`
	// Iteration and Job are positions in the lists of the configuration. Jobs before have been done.
	Iteration int `json:"iteration"`
	Job       int `json:"job"`
	// Pages is the number of pages of the job that are done; 0 when it has not begun.
	Pages int64 `json:"pages"`
	// Items, Volume and Elapsed are the counters of the stopping conditions. Elapsed is the time, in nanoseconds, that the
	// job was at work. The time between two runs is not in it.
	Items   int64         `json:"items"`
	Volume  int64         `json:"volume"`
	Elapsed time.Duration `json:"elapsed"`
	// Last is a checksum of the last page, Position the scroller's data for the next one.
	Last string `json:"last,omitempty"`
	// Cursor is how far an incremental job has come in this run, Window the start of the window at work in Unix seconds.
	Cursor *Cursor `json:"cursor,omitempty"`
	Window int64   `json:"window,omitempty"`
	// Cursors and Windows are, of a run of [RunTables], the replacements of these members of the state when the tables are written.
	Cursors map[string]Cursor `json:"cursors,omitempty"`
	Windows map[string]int64  `json:"windows,omitempty"`
	// Void are, of a run with Options.Spool, the places of pages in that file that were emitted again later.
	Void []int `json:"void,omitempty"`
	// Others are the positions of later jobs that run in parallel. Done is true for jobs that have ended.
	Others   []Checkpoint    `json:"others,omitempty"`
	Done     bool            `json:"done,omitempty"`
	Position json.RawMessage `json:"position,omitempty"`
}

// begun reports whether the position of a job is not at its start.
func (cp *Checkpoint) begun() bool { return cp.Done || cp.Pages > 0 || cp.Window != 0 }

// fingerprint identifies a page by types and order of everything in it.
func fingerprint(n tree.Node) string {
	h := sha256.New()
	n.WriteSerialized(h, nil)
	return hex.EncodeToString(h.Sum(nil))
}

// identifying returns the parts of a configuration that a checkpoint depends on, all but secrets, and how requests are sent
// and logged.
func identifying(root tree.Node) tree.Node {
	root = withoutSecrets(root)
	for _, at := range [][]string{nil, {"parameters"}} {
		for _, path := range [][]string{
			{"config", "debug"},
			{"api", "retryConfig"},
			{"api", "http", "connectTimeout"},
			{"api", "http", "requestTimeout"},
			{"api", "http", "trustedOrigins"},
			{"api", "rateLimit"},
			{"config", "parallelJobs"},
			{"api", "caCertificate"},
			{"api", "clientCertificate"},
			{"api", "clientKey"},
		} {
			root = without(root, append(slices.Clone(at), path...))
		}
	}
	return root
}

// without drops the member at a path.
func without(n tree.Node, path []string) tree.Node {
	below, ok := n.Get(path[0])
	switch {
	case !ok || n.Kind() != tree.Object:
		return n
	case len(path) == 1:
		return n.Without(path[0])
	}
	if below = without(below, path[1:]); below.Len() == 0 && below.IsCollection() {
		return n.Without(path[0]) // as if nothing had ever been written there
	}
	return n.With(path[0], below)
}

// withoutSecrets drops members whose names begin with '#', at any depth.
func withoutSecrets(n tree.Node) tree.Node {
	switch n.Kind() {
	case tree.List:
		items := list(n)
		for i := range items {
			items[i] = withoutSecrets(items[i])
		}
		return tree.OfList(items...)
	case tree.Object:
		var members []tree.Member
		for _, m := range n.Members() {
			if m.Key == "" || m.Key[0] != '#' {
				members = append(members, tree.Member{Key: m.Key, Value: withoutSecrets(m.Value)})
			}
		}
		return tree.OfObject(members...)
	}
	return n
}
