package stream

import (
	"context"
	"net/http"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/callkey"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/internal/wire"
)

// serveEvent stores the event or events of a request and answers it, or returns the error to answer it with.
func (h *handler) serveEvent(w http.ResponseWriter, r *http.Request, requestID string, target endpoint, src forebay.Source) *wire.Error {
	q := h.requests.Get().(*request)
	mem := &memory{h, q}
	defer mem.release()
	body, e := h.bodies.Read(&q.body, r, h.opts.MaxBodyBytes, h.opts.MaxBodyBytes)
	if e != nil {
		return e
	}
	q.rec.Body = body
	q.rec.Header, q.rec.Host = q.fields(r, h.opts.HiddenHeaders)
	q.rec.Request = mapping.RequestLine{Method: r.Method, Path: target.shown, Query: r.URL.RawQuery}
	q.rec.ClientIP = wire.ClientIP(r, h.opts.TrustedProxies)
	q.rec.Received = time.Now()

	ctx := h.deadlines.From(q.rec.Received)
	a := answer{h: h, w: w, r: r, requestID: requestID, source: src.ID}
	if src.Split == forebay.SplitNone && len(r.Header[callkey.Header]) == 0 {
		res, err := h.eng.Ingest(ctx, src.ID, &q.rec, mem)
		if err != nil && len(res.Sinks) == 0 {
			return ingestError(err, a.contentType())
		}
		a.writeOne(res)
		return nil
	}
	recs := []*mapping.Record{&q.rec}
	if src.Split != forebay.SplitNone {
		if recs, e = q.events.split(src.Split, body, &q.rec); e != nil {
			return e
		}
	}
	results, e, err := h.store(ctx, r, target.secret, src, body, recs)
	switch {
	case e != nil:
		return e
	case results == nil && err != nil:
		return ingestError(err, a.contentType())
	case src.Split == forebay.SplitNone:
		a.writeOne(results[0])
	default:
		a.writeMany(results)
	}
	return nil
}

// store stores the events of a request with one durable wait. With a key it stores only what earlier requests with the
// key have not stored.
func (h *handler) store(
	ctx context.Context, r *http.Request, secret string, src forebay.Source, body []byte, recs []*mapping.Record,
) ([]forebay.Result, *wire.Error, error) {
	key, err := callkey.Event(r.Header[callkey.Header], secret, string(src.Split))
	if err != nil {
		return nil, badKey, nil
	}
	if key == "" {
		results, err := h.eng.IngestBatch(ctx, src.ID, recs)
		return results, nil, err
	}
	if body == nil {
		body = []byte{} // nil stands for any body
	}
	results, err := h.eng.IngestOnce(ctx, src.ID, forebay.Once{Key: key, Content: body}, recs)
	return results, nil, err
}
