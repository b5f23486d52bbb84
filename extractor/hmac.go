package extractor

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// familyRequest are the values of the request that is being signed.
const familyRequest = "request"

// hmacConfig is an authentication of type hmac. Each request carries a signature over parts of it.
type hmacConfig struct {
	algorithm      func() hash.Hash
	key, message   *expression
	keyPath        string
	decodeKey      func(string) ([]byte, error)
	encode         func([]byte) string
	headers, query expressionMap
}

var hmacAlgorithms = map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New}

func parseHMAC(auth *section, attrOnly place) *hmacConfig {
	hc := &hmacConfig{keyPath: auth.at("key")}
	name := auth.text("algorithm", "sha256")
	if hc.algorithm = hmacAlgorithms[name]; hc.algorithm == nil {
		auth.wrong("algorithm", "must be one of %s, not %q", strings.Join(slices.Sorted(maps.Keys(hmacAlgorithms)), ", "), name)
	}
	switch encoding := auth.text("keyEncoding", "text"); encoding {
	case "text":
		hc.decodeKey = func(s string) ([]byte, error) { return []byte(s), nil }
	case "base64":
		hc.decodeKey = base64.StdEncoding.DecodeString
	case "hex":
		hc.decodeKey = hex.DecodeString
	default:
		auth.wrong("keyEncoding", "must be text, base64 or hex, not %q", encoding)
	}
	switch encoding := auth.text("encoding", "hex"); encoding {
	case "hex":
		hc.encode = hex.EncodeToString
	case "base64":
		hc.encode = base64.StdEncoding.EncodeToString
	default:
		auth.wrong("encoding", "must be hex or base64, not %q", encoding)
	}
	hc.key = attrOnly.compile(auth.value("key"), hc.keyPath)
	of := attrOnly
	of.families = []string{familyAttr, familyRequest}
	hc.message = of.compile(auth.value("message"), auth.at("message"))
	of.signed = true
	hc.headers, hc.query = of.compileHeaders(auth, "headers"), of.compileMap(auth, "query")
	if len(hc.headers)+len(hc.query) == 0 {
		auth.wrong("headers", "the signature must be in headers or query")
	}
	return hc
}

// requestValues are the names of {"request": name}. The signature is known to headers and query only.
var requestValues = []string{
	"body", "date", "host", "method", "nonce", "path", "query", "target", "timestamp", "timestampMs", "url",
}

// An hmacSigner signs each request, and each attempt and redirect of it, with a separate signature.
type hmacSigner struct {
	config *hmacConfig
	plan   *plan
}

func (*hmacSigner) forget(*request) bool { return false }

func (hs *hmacSigner) sign(_ context.Context, r *request) error {
	hc, now := hs.config, time.Now()
	s := hs.plan.attrScope()
	s.now = now
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce) // never fails
	texts := map[string]string{
		"method": r.method, "url": r.url.String(), "host": r.url.Host, "path": r.url.EscapedPath(), "query": r.url.RawQuery, "target": r.url.RequestURI(),
		"body": string(r.body), "timestamp": strconv.FormatInt(now.Unix(), 10), "timestampMs": strconv.FormatInt(now.UnixMilli(), 10),
		"date": now.UTC().Format(http.TimeFormat), "nonce": hex.EncodeToString(nonce),
	}
	values := make(map[string]tree.Node, len(texts)+1)
	for name, text := range texts {
		values[name] = tree.OfString(text)
	}
	s.values[familyRequest] = values
	key, err := hc.key.eval(s)
	if err != nil {
		return err
	}
	hs.plan.secrets.add(key.Text())
	raw, err := hc.decodeKey(key.Text())
	if err != nil || len(raw) == 0 {
		return &ValueError{hc.keyPath, errors.New("the key cannot be decoded, or is empty")}
	}
	message, err := hc.message.eval(s)
	if err != nil {
		return err
	}
	if message.IsCollection() {
		return &ValueError{hc.message.path, fmt.Errorf("the message became %s, not text", message.Kind().Phrase())}
	}
	sum := hmac.New(hc.algorithm, raw)
	sum.Write([]byte(message.Text()))
	signature := hc.encode(sum.Sum(nil))
	hs.plan.secrets.add(signature)
	values["signature"] = tree.OfString(signature)
	headers, err := hc.headers.headers(s)
	if err != nil {
		return err
	}
	query, err := hc.query.eval(s)
	if err != nil {
		return err
	}
	(&credentials{headers: headers, query: pairsOf(query), replaces: true}).sign(r)
	return nil
}
