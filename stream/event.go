package stream

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/callkey"
	"github.com/forebay/forebay/internal/tracecontext"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/internal/wire"
)

// serveEvent stores the event or events of a request and responds, or returns the error to respond with.
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
	if h.traced {
		ctx = tracecontext.Of(ctx, r.Context(), r.Header.Values)
	}
	a := response{h: h, w: w, r: r, requestID: requestID, source: src.ID}
	if src.Split == forebay.SplitNone && len(r.Header[callkey.Header]) == 0 {
		res, err := h.eng.Ingest(ctx, src.ID, &q.rec, mem)
		if err != nil && len(res.Sinks) == 0 {
			return ingestError(err, a.contentType())
		}
		a.writeOne(res)
		return nil
	}
	results, split, e, err := h.store(ctx, q, r.Header[callkey.Header], src)
	switch {
	case e != nil:
		return e
	case results == nil && err != nil:
		return ingestError(err, a.contentType())
	case split == forebay.SplitNone:
		a.writeOne(results[0])
	default:
		a.writeMany(results)
	}
	return nil
}

// cut splits the body of the request into records. They are valid until the next cut.
func (q *request) cut(split forebay.Split) ([]*mapping.Record, *wire.Error) {
	if split == forebay.SplitNone {
		return []*mapping.Record{&q.rec}, nil
	}
	q.events.reuse()
	return q.events.split(split, q.rec.Body, &q.rec)
}

// splits are the ways in which a source splits bodies.
var splits = [...]forebay.Split{forebay.SplitNone, forebay.SplitArray, forebay.SplitLines}

// store stores the events of a request with one durable wait. With a key it stores only the events that earlier requests with the key have not
// stored. It returns the split of the body, which is the split of the source, or the split of the first request with the key.
func (h *handler) store(
	ctx context.Context, q *request, values []string, src forebay.Source,
) ([]forebay.Result, forebay.Split, *wire.Error, error) {
	key, err := callkey.Event(values)
	switch {
	case err != nil:
		return nil, src.Split, badKey, nil
	case key != "":
		return h.storeOnce(ctx, q, key, src)
	}
	recs, e := q.cut(src.Split)
	if e != nil {
		return nil, src.Split, e, nil
	}
	results, err := h.eng.IngestBatch(ctx, src.ID, recs)
	return results, src.Split, nil, err
}

// storeOnce is store with a key. A receipt numbers the events of a body, so the split is part of the content of a key. If the split of the
// source has changed since the first request, the content differs, and storeOnce finds the split of the first request.
func (h *handler) storeOnce(
	ctx context.Context, q *request, key string, src forebay.Source,
) (results []forebay.Result, split forebay.Split, e *wire.Error, err error) {
	sum := sha256.Sum256(q.rec.Body)
	try := func(split forebay.Split) ([]forebay.Result, *wire.Error, error) {
		recs, e := q.cut(split)
		if e != nil {
			return nil, e, nil
		}
		results, err := h.eng.IngestOnce(ctx, src.ID, forebay.Once{Key: key, Content: append(sum[:], split...)}, recs)
		return results, nil, err
	}
	results, e, err = try(src.Split)
	if e != nil {
		// The split of the source cannot have stored this body. A different one may have, at this node or at another one. A call without records
		// asks them all, and stores nothing.
		_, err = h.eng.IngestOnce(ctx, src.ID, forebay.Once{Key: key, Content: append(sum[:], src.Split...)}, nil)
	}
	switch {
	case errors.Is(err, forebay.ErrOtherContent):
	case e != nil && err == nil:
		return nil, src.Split, e, nil
	default:
		return results, src.Split, nil, err
	}
	for _, split := range splits {
		if split == src.Split {
			continue
		}
		if results, e, err := try(split); e == nil && !errors.Is(err, forebay.ErrOtherContent) {
			return results, split, nil, err
		}
	}
	return nil, src.Split, nil, forebay.ErrOtherContent
}
