package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/catalog"
)

const (
	// nodesFor is how long a result of Options.Nodes serves all viewers, and nodesWithin how long the call may take.
	nodesFor    = 2 * time.Second
	nodesWithin = 5 * time.Second
)

func (c *Console) healthPage() page {
	return page{name: "health", title: "Health", key: "h", right: Numbers, live: c.healthView, endpoints: []endpoint{
		{name: "health.disk", method: http.MethodGet, right: Numbers, run: (*request).healthDisk},
		{name: "health.nodes", method: http.MethodGet, right: Numbers, run: (*request).healthNodes},
		{name: "health.forget", method: http.MethodPost, right: Changes, change: true, run: (*request).forgetDamage},
		{name: "health.verify", method: http.MethodPost, right: Changes, change: true, run: (*request).verify},
	}}
}

// health is the state that the page remembers.
type health struct {
	verifying sync.Mutex // held by the task that verifies

	mu   sync.Mutex
	last *verified // guarded by mu, nil if no user has verified

	asking sync.Mutex // guards the fields below, and is held while the nodes are asked
	nodes  []catalog.Node
	failed error
	asked  time.Time
}

// verified is the result of [forebay.Engine.Verify], or why there is none.
type verified struct {
	at          time.Time
	ids         []string // of the sinks
	wrong       []string // the ids of the sinks that differ
	rows        int64    // recounted
	differences []string
	err         error
}

// healthHead is the live part, the engine's knowledge without a look at its disk.
type healthHead struct {
	Ready     bool     `json:"ready"`
	Readiness sentence `json:"readiness"`
	Facts     []fact   `json:"facts"`
	// Damages is the number of records of damage, so that the page knows when to read them again.
	Damages int64 `json:"damages"`
	// Cluster is set if the program lists nodes.
	Cluster bool `json:"cluster"`
	// Verified is the result of the last check, State is ok or error, or empty before the first one.
	Verified sentence `json:"verified"`
	State    string   `json:"state"`
	// Differences are a page of Different ones, which begins after From.
	Differences []string `json:"differences,omitempty"`
	Different   int      `json:"different"`
	From        int      `json:"from"`
}

// healthView has a page of the differences, after so many as the query names by "from".
func (c *Console) healthView(s *sample, q url.Values) view {
	head := healthHead{Ready: s.ready == nil, Readiness: said("Ready: records are taken."), Damages: s.stats.Damages, Cluster: c.opts.Nodes != nil}
	switch {
	case s.closed:
		head.Readiness = said("The engine is closed. These are its last numbers.")
	case s.ready != nil:
		head.Readiness = said("Not ready: ", s.notReady())
	}
	head.Facts = c.healthFacts(s)
	c.health.mu.Lock()
	last := c.health.last
	c.health.mu.Unlock()
	var differences []string
	head.Verified, head.State, differences = last.say(s.words)
	head.Different = len(differences)
	head.Differences, head.From = pageOf(differences, q.Get("from"))
	return view{head: head}
}

// say returns the outcome in words. Differences and errors quote stored data, so they need the right to records.
func (v *verified) say(words bool) (out sentence, state string, differences []string) {
	switch {
	case v == nil:
		return said("No verification has run since the console was started."), "", nil
	case v.err != nil && words:
		return said("Not verified at ", v.at, ": ", visible(v.err.Error())), "error", nil
	case v.err != nil:
		return said("Not verified at ", v.at, ": it has failed.", needsRecords), "error", nil
	}
	out = said("Verified ", v.at, ", ", rowsOf(v.rows), " of ", sinksOf(len(v.ids)), " recounted: ")
	if len(v.wrong) == 0 {
		return said(out, "no difference."), "ok", nil
	}
	out = said(out, sinksOf(len(v.wrong)), verb(int64(len(v.wrong)), " differs.", " differ."))
	if !words {
		return said(out, " The differences need the right to records."), "error", nil
	}
	return out, "error", v.differences
}

// checked says when a sink was recounted last, for its ledger, or nothing if it never was, or if the check has failed.
func (k *health) checked(id string) sentence {
	k.mu.Lock()
	v := k.last
	k.mu.Unlock()
	switch {
	case v == nil || v.err != nil || !slices.Contains(v.ids, id):
		return nil
	case slices.Contains(v.wrong, id):
		return said(", verified ", v.at, ": stored rows differ, see Health")
	}
	return said(", verified ", v.at)
}

func sinksOf(n int) string { return grouped(int64(n)) + verb(int64(n), " sink", " sinks") }

// share is a part of a bound, with its percentage.
func share(used, bound int64) fact {
	f := fact{Value: size(used).Text}
	if bound > 0 {
		f.Value += " of " + size(bound).Text
		f.Note = three(100*float64(used)/float64(bound)) + " %"
	}
	return f
}

// healthFacts are numbers alone.
func (c *Console) healthFacts(s *sample) []fact {
	st := &s.stats
	named := func(name string, f fact) fact {
		f.Name = name
		return f
	}
	facts := []fact{
		named("Disk limit, used by waiting rows", share(s.used(), st.MaxDiskBytes)),
		{Name: "Disk space of the local store", Value: size(st.StoreBytes).Text, Note: "including space to be reclaimed"},
		{Name: "Disk limit of one sink", Value: size(st.MaxSinkBytes).Text},
		named("Memory for rows that are not on disk yet", share(st.PendingBytes, st.MaxPendingBytes)),
		{Name: "Largest row", Value: size(int64(st.MaxRowBytes)).Text},
		{Name: "Refused calls", Value: count(st.Overloads).Text, Note: "since the start, at a limit of memory or disk"},
		{Name: "Failing files expire after", Value: duration(st.Retention)},
		{Name: "Idempotency keys are kept for", Value: duration(st.KeyRetention)},
	}
	if c.opts.Version != "" {
		facts = append(facts, fact{Name: "Version", Value: visible(c.opts.Version)})
	}
	return append(facts, fact{Name: "Forebay", Value: forebay.Version()})
}

// shownDamage is a record of damage without the bytes that could be read.
type shownDamage struct {
	ID   string `json:"id"`
	At   moment `json:"at"`
	Sink string `json:"sink"`
	File string `json:"file"`
	Rows string `json:"rows"`
	Size cell   `json:"size"`
	// Reason quotes an error, so it needs the right to records. Store is the folder that was set aside.
	Reason string `json:"reason"`
	Store  string `json:"store,omitempty"`
}

// diskAnswer is the information that only the disk has.
type diskAnswer struct {
	Free cell `json:"free"`
	// Damage is a page of Records records, the newest first, which begins after From.
	Damage  []shownDamage `json:"damage"`
	Records int           `json:"records"`
	From    int           `json:"from"`
	// Problem says why the list is missing.
	Problem string `json:"problem,omitempty"`
}

// healthDisk asks the disk. It is no part of the live data, because a disk that hangs would hold that up.
func (c *request) healthDisk() (any, error) {
	words := c.who.rights&Records != 0
	out := diskAnswer{Free: cell{Text: unknown}, Damage: []shownDamage{}}
	if free, err := c.eng.Buffer().VolumeFree(); err == nil {
		out.Free = size(free)
	}
	list, err := c.eng.Buffer().Damaged(c.ctx)
	if err != nil {
		if out.Problem = "The list of damage cannot be read." + needsRecords; words {
			out.Problem = "The list of damage cannot be read: " + visible(err.Error())
		}
		return out, nil
	}
	slices.SortStableFunc(list, func(a, b buffer.Damage) int { return b.At.Compare(a.At) })
	out.Records = len(list)
	list, out.From = pageOf(list, c.query.Get("from"))
	for _, d := range list {
		one := shownDamage{ID: d.ID, At: moment(d.At), Sink: visible(d.SinkID), File: visible(d.FileID), Rows: grouped(d.Rows), Size: size(d.Bytes)}
		if d.Uncounted {
			one.Rows = "at least " + one.Rows
		}
		if words {
			one.Reason, one.Store = visible(d.Reason), visible(d.Store)
		}
		out.Damage = append(out.Damage, one)
	}
	return out, nil
}

// forgetDamage removes a record of damage that the operator has read.
func (c *request) forgetDamage() (any, error) {
	var in struct{ ID string }
	if err := c.body(&in); err != nil {
		return nil, err
	}
	c.note("damage", in.ID)
	return nil, c.eng.Buffer().ForgetDamage(c.ctx, in.ID)
}

// shownNode is a node of the cluster.
type shownNode struct {
	Name     string `json:"name"`
	Instance string `json:"instance"`
	Epoch    string `json:"epoch"`
	Ready    bool   `json:"ready"`
	// Missing is the missing part, or the warning of a node that is ready.
	Missing  string   `json:"missing"`
	Adopting []string `json:"adopting"`
	Adopted  []string `json:"adopted"`
	Damaged  []string `json:"damaged"`
	// Log is the size and its bound, Lag the part that copies lack, or unknown if the node reports none.
	Log string `json:"log"`
	Lag string `json:"lag"`
}

// nodesAnswer is a page of the nodes, which begins after From, and why some may be missing. Count is how many there are, Away how many are not ready.
type nodesAnswer struct {
	Nodes   []shownNode `json:"nodes"`
	Count   int         `json:"count"`
	Away    int         `json:"away"`
	From    int         `json:"from"`
	Problem string      `json:"problem,omitempty"`
}

// healthNodes lists the nodes of the cluster, those first that are not ready.
func (c *request) healthNodes() (any, error) {
	if c.opts.Nodes == nil {
		return nil, refuse(http.StatusNotFound, "This program lists no nodes.")
	}
	words := c.who.rights&Records != 0
	list, failed := c.health.list(c.Console)
	out := nodesAnswer{Nodes: []shownNode{}}
	switch {
	case failed != nil && words:
		out.Problem = "Nodes may be missing here: " + visible(failed.Error())
	case failed != nil:
		out.Problem = "Nodes may be missing here: the servers of the cluster return an error." + needsRecords
	}
	list = slices.Clone(list) // it serves other viewers too
	slices.SortStableFunc(list, func(a, b catalog.Node) int {
		switch {
		case a.Ready == b.Ready:
			return 0
		case b.Ready:
			return -1
		}
		return 1
	})
	out.Count = len(list)
	out.Away = slices.IndexFunc(list, func(n catalog.Node) bool { return n.Ready })
	if out.Away < 0 {
		out.Away = out.Count
	}
	list, out.From = pageOf(list, c.query.Get("from"))
	for _, n := range list {
		out.Nodes = append(out.Nodes, showNode(n, words))
	}
	return out, nil
}

func showNode(n catalog.Node, words bool) shownNode {
	out := shownNode{
		Name: visible(n.Name), Instance: visible(n.Instance), Epoch: unknown, Ready: n.Ready,
		Adopting: visibleAll(n.Adopting), Adopted: visibleAll(n.Adopted), Damaged: visibleAll(n.Damaged), Log: unknown, Lag: unknown,
	}
	if n.Epoch > 0 {
		out.Epoch = grouped(int64(n.Epoch))
	}
	switch {
	case n.Ready && words:
		out.Missing = visible(n.Warning)
	case n.Ready:
	case words:
		out.Missing = visible(n.Missing)
	default:
		out.Missing = "The missing parts need the right to records."
	}
	if n.LogMaxBytes > 0 {
		f := share(n.LogBytes, n.LogMaxBytes)
		out.Log = f.Value + ", " + f.Note
		if out.Lag = "none"; n.LogBehind > 0 {
			out.Lag = count(int64(n.LogBehind)).Text + verb(int64(n.LogBehind), " copy", " copies") + ", " +
				count(int64(n.LogLag)).Text + verb(int64(n.LogLag), " change", " changes")
		}
	}
	return out
}

func visibleAll(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = visible(s)
	}
	return out
}

// list asks for the nodes once for all viewers.
func (k *health) list(c *Console) ([]catalog.Node, error) {
	k.asking.Lock()
	defer k.asking.Unlock()
	if k.asked.IsZero() || time.Since(k.asked) >= nodesFor {
		ctx, cancel := context.WithTimeout(c.ctx, nodesWithin)
		defer cancel()
		k.nodes, k.failed = c.opts.Nodes(ctx)
		k.asked = time.Now()
	}
	return k.nodes, k.failed
}

// verify recounts the stored rows. It is a task, one at a time, because it reads everything that is stored.
func (c *request) verify() (any, error) {
	if err := c.body(&struct{}{}); err != nil {
		return nil, err
	}
	if !c.health.verifying.TryLock() {
		return nil, refuse(http.StatusConflict, "A check runs already.")
	}
	con := c.Console
	id, err := c.startTask(verifyTask, "Verify", func(ctx context.Context, progress func(string)) error {
		defer con.health.verifying.Unlock()
		progress("recounting the stored rows")
		report, err := con.eng.Verify(ctx)
		if ctx.Err() != nil && err != nil {
			return err // no caller waits for it
		}
		found := verifiedOf(report, err, time.Now())
		con.health.mu.Lock()
		con.health.last = found
		con.health.mu.Unlock()
		if err == nil && len(found.wrong) > 0 {
			return errors.New("stored rows and counters differ: see Health")
		}
		if err == nil {
			progress(rowsOf(found.rows) + " recounted, no difference")
		}
		return err
	})
	if err != nil {
		c.health.verifying.Unlock()
	}
	return started{id}, err
}

func verifiedOf(report buffer.Report, err error, at time.Time) *verified {
	v := &verified{at: at, err: err}
	for _, s := range report.Sinks {
		v.ids = append(v.ids, s.ID)
		v.rows += s.Local + s.Staging
		if len(s.Differences) > 0 {
			v.wrong = append(v.wrong, s.ID)
		}
		for _, d := range s.Differences {
			v.differences = append(v.differences, visible(s.ID+": "+d))
		}
	}
	return v
}
