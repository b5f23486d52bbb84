package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// client appends rows, one command after the other.
type client struct {
	r    *run
	num  int
	next int
	// open is a call with a key whose outcome is not known, see keyed_test.go.
	open *keyedCall
}

// work is one command for a client.
type work struct {
	sinks       []string
	count, size int
	// wait and stale apply to the buffer alone. They mean to wait for the disk, and use the oldest handle. Clients of an engine follow
	// its settings.
	wait, stale bool
}

// name makes the name of the next row of the client. Names of one client ascend.
func (c *client) name() string {
	name := fmt.Sprintf("%d.%06d", c.num, c.next)
	c.next++
	return name
}

// value is the second cell of a row, at least size bytes.
func value(name string, size int) string { return strings.Repeat(name[:3], 1+size/3) }

// work does a command, which is several appends with a pause between them.
func (c *client) work(times int, w work) {
	r := c.r
	for i := range times {
		r.mu.Lock()
		g := r.gen
		r.mu.Unlock()
		ctx, cancel := context.WithTimeout(g.ctx, time.Minute)
		g.level.append(ctx, c, w)
		cancel()
		if r.plain || i == times-1 {
			continue
		}
		if d := c.pause(); d > 0 {
			select {
			case <-time.After(d):
			case <-g.ctx.Done():
			case <-r.hurry:
			}
		}
	}
}

// pause is the time until the next append.
func (c *client) pause() time.Duration {
	for _, p := range []struct {
		share float64
		d     time.Duration
	}{{0.7, 0}, {0.5, 100 * time.Millisecond}, {0.5, 5 * time.Second}, {0.5, 10 * time.Minute}} {
		if chance(c.r.seed, p.share, fmt.Sprintf("pause %s of %d before %d", p.d, c.num, c.next)) {
			return p.d
		}
	}
	return 5 * time.Hour
}

// patient reports whether the next call of the client waits for room.
func (r *run) patient(c *client) bool {
	return !r.plain && chance(r.seed, 0.3, fmt.Sprintf("patient %d before %d", c.num, c.next))
}

// appendRows hands CSV to the buffer.
func (c *client) appendRows(ctx context.Context, b *buffer.Buffer, w work) {
	r := c.r
	r.mu.Lock()
	g := r.gen
	var batch []buffer.Rows
	var mine []*row
	for _, id := range w.sinks {
		list := r.handles[id]
		if len(list) == 0 {
			continue
		}
		h := list[len(list)-1]
		if w.stale {
			h = list[0]
		}
		var data []byte
		var rejects []buffer.Reject
		count := 0
		for range w.count {
			name := c.name()
			if r.rejects(h, name) {
				if reject, x := r.reject(g, h, id, name, len(rejects)); x != nil {
					rejects, mine = append(rejects, reject), append(mine, x)
				}
				continue
			}
			count++
			data = fmt.Appendf(data, "\"%s\",\"%s\"", name, value(name, w.size))
			data = append(append(data, h.version.cells(r.seed, name)...), '\n')
			x := r.newRow(g, id, name, h.conf.Table.ID)
			x.version, x.place, x.placed = h.version, inRows, x.began
			mine = append(mine, x)
		}
		if count+len(rejects) > 0 {
			batch = append(batch, buffer.Rows{Sink: h.sink, Data: data, Count: count, Rejects: rejects})
		}
	}
	r.mu.Unlock()
	push := b.Append
	if r.patient(c) {
		push = b.AppendWhenRoom
	}
	ticket, err := push(ctx, time.Now(), batch...)
	var full *buffer.OverloadError
	switch {
	case errors.As(err, &full):
		r.told(g, refused, mine...)
		return
	case err != nil:
		return
	}
	r.told(g, accepted, mine...)
	if !w.wait {
		return
	}
	r.told(g, unknown, mine...)
	if ticket.Wait(ctx) == nil {
		r.told(g, acked, mine...)
	}
}

// event is one record with the rows that it may become, by sink.
type event struct {
	body []byte
	rows map[string]*row
}

// ingest sends events to the sources of the sinks, by the methods of the engine or by HTTP.
func (c *client) ingest(ctx context.Context, l *engineLevel, w work) {
	r := c.r
	if c.open != nil && !c.repeat(ctx, l) {
		return
	}
	sent := map[string]bool{}
	for _, id := range w.sinks {
		source, _ := sourceOf(id)
		if sent[source] {
			continue
		}
		sent[source] = true
		way := "http"
		for _, other := range []string{"one", "batch"} {
			if chance(r.seed, 0.4, fmt.Sprintf("%s by %d before %d", other, c.num, c.next)) {
				way = other
				break
			}
		}
		if way == "batch" {
			if !chance(r.seed, 0.5, fmt.Sprintf("key by %d before %d", c.num, c.next)) {
				c.ingestBatch(ctx, l, source, w)
			} else if c.ingestKeyed(ctx, l, source, w); c.open != nil {
				return
			}
			continue
		}
		for range w.count {
			if way == "http" {
				c.post(ctx, l, source, w.size)
			} else {
				c.ingestOne(ctx, l, source, w.size)
			}
		}
	}
}

// event makes the next event of the client. Some have no value, and some are too large.
func (c *client) event(g *generation, source string, size int) event {
	r := c.r
	name := c.name()
	e := event{rows: map[string]*row{}}
	fields := map[string]string{"id": name}
	if chance(r.seed, 0.01, "too large "+name) {
		size = maxRow
	}
	bare := chance(r.seed, r.bareShare(), "no value "+name)
	if !bare {
		fields["value"] = value(name, size)
	}
	e.body, _ = json.Marshal(fields) // strings can be encoded
	if r.typed() {
		e.body = e.body[:len(e.body)-1]
		for _, f := range typedFields {
			if text, _ := f.value(r.seed, name); text != "" {
				e.body = fmt.Appendf(e.body, `,"%s":%s`, f.name, text)
			}
		}
		e.body = append(e.body, '}')
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range r.sinksOf(source) {
		x := r.newRow(g, id, name, "")
		x.bare, x.body = bare, sumOf(e.body)
		x.from, x.to = r.inForce[id], -1
		e.rows[id] = x
	}
	if source == archived && r.archives() { // the replay of the archive may store it
		x := r.newRow(g, backfillID, name, "")
		x.bare, x.body, x.to, x.late = bare, sumOf(e.body), -1, true
	}
	return e
}

// returned notes that the call of an event has returned, so later definitions do not concern it.
func (r *run) returned(events ...event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		for id, x := range e.rows {
			if !x.replayed { // a replay may continue
				x.to = len(r.history[id]) - 1
			}
		}
	}
}

// result notes the engine's report for one event.
func (r *run) result(g *generation, source string, e event, res forebay.Result) {
	fates := map[string]fate{}
	for _, s := range res.Sinks {
		r.tellPlace(g, e.rows[source+"/"+s.Sink], s.Status)
		var full *buffer.OverloadError
		f := unknown
		switch {
		case s.Status == forebay.Stored, s.Status == forebay.Quarantined:
			f = acked
		case s.Status == forebay.Queued:
			f = accepted
		case s.Status == forebay.Rejected, errors.As(s.Err, &full):
			f = refused
		}
		fates[source+"/"+s.Sink] = f
	}
	for id, x := range e.rows {
		f, ok := fates[id]
		if !ok {
			f = refused // the sink did not take part
			if r.enabledAll(id, x) {
				r.t.Errorf("sink %s was not asked for an event: %+v", id, res)
			}
		}
		r.told(g, f, x)
	}
}

// nothing notes that the engine took nothing of an event.
func (r *run) nothing(g *generation, events ...event) {
	for _, e := range events {
		for _, x := range e.rows {
			r.told(g, refused, x)
		}
	}
}

func (c *client) ingestOne(ctx context.Context, l *engineLevel, source string, size int) {
	r, g := c.r, c.r.generation()
	e := c.event(g, source, size)
	ingest := l.Ingest
	if r.patient(c) {
		ingest = l.WaitForRoom().Ingest
	}
	res, err := ingest(ctx, source, mapping.JSON(e.body))
	r.returned(e)
	if err != nil && len(res.Sinks) == 0 {
		r.nothing(g, e)
		return
	}
	r.result(g, source, e, res)
}

func (c *client) ingestBatch(ctx context.Context, l *engineLevel, source string, w work) {
	r, g := c.r, c.r.generation()
	var events []event
	var recs []*mapping.Record
	for range w.count {
		e := c.event(g, source, w.size)
		events = append(events, e)
		recs = append(recs, mapping.JSON(e.body))
	}
	ingest := l.IngestBatch
	if r.patient(c) {
		ingest = l.WaitForRoom().IngestBatch
	}
	results, err := ingest(ctx, source, recs)
	r.returned(events...)
	if err != nil && results == nil {
		r.nothing(g, events...)
		return
	}
	for i, e := range events {
		r.result(g, source, e, results[i])
	}
}

// post sends an event by HTTP, without a network, and believes the response.
func (c *client) post(ctx context.Context, l *engineLevel, source string, size int) {
	r, g := c.r, c.r.generation()
	e := c.event(g, source, size)
	url := "/stream/1/" + source + "/" + secret
	verbose := chance(r.seed, 0.5, fmt.Sprintf("verbose %d.%d", c.num, c.next))
	if verbose {
		url += "?verbose=true"
	}
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(string(e.body)))
	req.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	l.http.ServeHTTP(answer, req)
	r.returned(e)
	var body struct {
		Sources []struct {
			Sinks []struct {
				SinkID     string `json:"sinkId"`
				StatusCode int    `json:"statusCode"`
				Message    string `json:"message"`
			} `json:"sinks"`
		} `json:"sources"`
	}
	isJSON := json.Unmarshal(answer.Body.Bytes(), &body) == nil
	switch {
	case isJSON && len(body.Sources) > 0:
		fates := map[string]fate{}
		for _, s := range body.Sources[0].Sinks {
			f := unknown
			switch {
			case s.StatusCode == http.StatusOK:
				f = acked
				status := forebay.Stored
				if strings.HasPrefix(s.Message, "quarantined") {
					status = forebay.Quarantined
				}
				r.tellPlace(g, e.rows[source+"/"+s.SinkID], status)
			case s.StatusCode == http.StatusAccepted:
				f = accepted
			case s.StatusCode < http.StatusInternalServerError:
				f = refused
			}
			fates[source+"/"+s.SinkID] = f
		}
		for id, x := range e.rows {
			f, ok := fates[id]
			if !ok {
				f = refused
			}
			r.told(g, f, x)
		}
	case answer.Code == http.StatusOK || answer.Code == http.StatusAccepted:
		f := acked
		if answer.Code == http.StatusAccepted {
			f = accepted
		}
		for id, x := range e.rows { // the sinks that took part for sure
			if r.enabledAll(id, x) {
				r.tellPlace(g, x, forebay.Stored)
				r.told(g, f, x)
			}
		}
	case answer.Code < http.StatusInternalServerError:
		r.nothing(g, e)
	case !isJSON:
		r.t.Errorf("answer %d: %.200s", answer.Code, answer.Body)
	}
}
