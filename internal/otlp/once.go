package otlp

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/callkey"
	"github.com/forebay/forebay/mapping"
)

// Sum is a hash of the bytes of an export request.
type Sum [sha256.Size]byte

// SumOf hashes a request after decompression.
func SumOf(data []byte) Sum { return sha256.Sum256(data) }

// Request is what identifies an export request.
type Request struct {
	// Signal is the kind of the records.
	Signal forebay.Signal
	// Encoding is how the body is encoded.
	Encoding Encoding
	// Keys are the values of the header callkey.Header.
	Keys []string
	// Header has the headers that mappings see.
	Header http.Header
	Sum    Sum
	// Received is when the request arrived.
	Received time.Time
	// Window is how long a request without a key counts as a repetition of an equal one. Zero means as long as keys are
	// kept. Negative means never.
	Window time.Duration
}

// Once makes an export request repeatable, by its key or by everything that its rows are made of. Exporters give no key, and
// repeat a request byte for byte if they did not get its response.
//
// Requests that only look equal must stay apart, because clocks of browsers have milliseconds, and hosts send equal heartbeats. So a request that is
// [Nameless] gets a forebay.Turn, which the server ends when it has written the response. While the response may not have arrived, an equal
// request is a repetition. Afterwards an equal request is new. Concurrent equal requests take turns. So at any moment, even in a crash, at most
// one of them is stored without a response.
//
// A request is always new unless each record has a time within 24 h. So a replayed file, or a load test that sends one body, waits for no
// turns. The headers that mappings see are compared too, so that one batch can go to two tenants. The host and the headers that proxies and
// tracing change with every attempt are not compared.
//
// The error is [callkey.ErrKey].
func Once(r *Request, docs iter.Seq[mapping.FieldDocument]) (forebay.Once, error) {
	key, err := callkey.OTLP(r.Keys, string(r.Signal))
	if err != nil || key != "" {
		return forebay.Once{Key: key, Content: r.Sum[:]}, err
	}
	if r.Window < 0 || !recent(docs, r.Received) {
		return forebay.Once{}, nil
	}
	h := sha256.New()
	var size [binary.MaxVarintLen64]byte
	number := func(n int) { h.Write(binary.AppendUvarint(size[:0], uint64(n))) }
	add := func(text string) {
		number(len(text))
		h.Write([]byte(text))
	}
	add(string(r.Signal))
	h.Write([]byte{byte(r.Encoding)})
	h.Write(r.Sum[:])
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if passing[name] {
			continue
		}
		add(name)
		number(len(r.Header[name]))
		for _, v := range r.Header[name] {
			add(v)
		}
	}
	return forebay.Once{Key: callkey.Join("batch", string(h.Sum(nil))), Within: r.Window}, nil
}

// Nameless reports whether a request is recognized by its content, because its sender gave no key.
func Nameless(once forebay.Once) bool { return once.Key != "" && once.Content == nil }

// passing are the headers that belong to one attempt and not to the batch.
var passing = map[string]bool{
	"Connection": true, "Content-Encoding": true, "Content-Length": true, "Date": true, "Forwarded": true, "Host": true, "Via": true,
	"Traceparent": true, "Tracestate": true, "B3": true, "X-B3-Traceid": true, "X-B3-Spanid": true, "X-B3-Parentspanid": true,
	"X-B3-Sampled": true, "X-B3-Flags": true, "Uber-Trace-Id": true, "X-Amzn-Trace-Id": true, "X-Cloud-Trace-Context": true,
	"X-Request-Id": true, "X-Correlation-Id": true, "Cf-Ray": true, "X-Real-Ip": true, "X-Forwarded-For": true,
	"X-Forwarded-Port": true, "X-Envoy-Attempt-Count": true, "X-Envoy-Expected-Rq-Timeout-Ms": true,
	"Grpc-Previous-Rpc-Attempts": true, "Grpc-Timeout": true, callkey.Header: true,
}

// recently bounds the distance of a record's time, in both directions, because clocks differ.
const recently = 24 * time.Hour

// recent reports whether there are records and all have a time near now.
func recent(docs iter.Seq[mapping.FieldDocument], now time.Time) bool {
	from, to := now.Add(-recently).UnixNano(), now.Add(recently).UnixNano()
	records := 0
	for doc := range docs {
		timed, ok := doc.(interface{ At() uint64 })
		if !ok {
			return false
		}
		if at := int64(timed.At()); at < from || at > to { // times above 2^63 are negative
			return false
		}
		records++
	}
	return records > 0
}
