package fastserver_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/fuzztest"
	"github.com/forebay/forebay/internal/synctest"
)

// requests are what clients send, good and bad. "\n" stands for CRLF, and "\\n" for a line feed alone.
var requests = []struct{ name, text string }{
	{"post", "POST /x HTTP/1.1\nHost: a\nContent-Length: 2\nContent-Type: application/json\n\n{}"},
	{"get", "GET /x HTTP/1.1\nHost: a\n\n"},
	{"get with body", "GET /x HTTP/1.1\nHost: a\nContent-Length: 2\n\n{}"},
	{"methods", "PUT /x HTTP/1.1\nHost: a\nContent-Length: 2\n\n{}DELETE /x HTTP/1.1\nHost: a\n\nPATCH /x HTTP/1.1\nHost: a\n\nOPTIONS /x HTTP/1.1\nHost: a\n\n"},
	{"head", "HEAD /x HTTP/1.1\nHost: a\n\nGET /x HTTP/1.1\nHost: a\n\n"},
	{"unknown method", "BREW /x HTTP/1.1\nHost: a\n\n"},
	{"small method", "post /x HTTP/1.1\nHost: a\nContent-Length: 2\n\n{}"},
	{"bad method", "PO(ST /x HTTP/1.1\nHost: a\n\n"},
	{"connect", "CONNECT a:443 HTTP/1.1\nHost: a\n\n"},
	{"options of all", "OPTIONS * HTTP/1.1\nHost: a\n\n"},
	{"absolute target", "POST http://b/x?y HTTP/1.1\nHost: a\nContent-Length: 2\n\n{}"},
	{"relative target", "POST x HTTP/1.1\nHost: a\nContent-Length: 2\n\n{}"},
	{"no target", "POST HTTP/1.1\nHost: a\n\n"},
	{"blank target", "POST  HTTP/1.1\nHost: a\n\n"},
	{"two blanks", "POST  /x HTTP/1.1\nHost: a\n\n"},
	{"blank in target", "POST /x y HTTP/1.1\nHost: a\n\n"},
	{"target with authority form", "POST //b/x HTTP/1.1\nHost: a\n\n"},
	{"target with three slashes", "POST ///b/x HTTP/1.1\nHost: a\n\n"},
	{"dots", "POST /a/../b/./c HTTP/1.1\nHost: a\n\n"},
	{"escapes", "POST /a%2Fb/%7e/%C3%BC?q=%20+a HTTP/1.1\nHost: a\n\n"},
	{"broken escape", "POST /a%2 HTTP/1.1\nHost: a\n\n"},
	{"broken escape of the query", "POST /a?%2 HTTP/1.1\nHost: a\n\n"},
	{"escaped control", "POST /a%00%0a HTTP/1.1\nHost: a\n\n"},
	{"all of a path", "POST /-_.~$&+,/:;=@!'()*[]{}|\\^`\"<># HTTP/1.1\nHost: a\n\n"},
	{"all of a query", "POST /a?-_.~$&+,/:;=@!'()*[]{}|\\^`\"<>#? HTTP/1.1\nHost: a\n\n"},
	{"empty query", "POST /a? HTTP/1.1\nHost: a\n\n"},
	{"two question marks", "POST /a?? HTTP/1.1\nHost: a\n\n"},
	{"delete in query", "POST /a?b\x7fc HTTP/1.1\nHost: a\n\n"},
	{"high bytes in query", "POST /a?b\xffc HTTP/1.1\nHost: a\n\n"},
	{"each byte of a path", eachByte("/a%cb")},
	{"each byte of a query", eachByte("/a?b%cc")},
	{"high bytes in target", "POST /\xff\xfe HTTP/1.1\nHost: a\n\n"},
	{"control in target", "POST /a\x01b HTTP/1.1\nHost: a\n\n"},
	{"tab in target", "POST /a\tb HTTP/1.1\nHost: a\n\n"},
	{"HTTP/1.0", "POST /x HTTP/1.0\nContent-Length: 2\n\n{}"},
	{"HTTP/1.0 kept", "POST /x HTTP/1.0\nConnection: keep-alive\nContent-Length: 2\n\n{}GET /x HTTP/1.0\n\n"},
	{"HTTP/1.2", "POST /x HTTP/1.2\nHost: a\n\n"},
	{"HTTP/2.0", "POST /x HTTP/2.0\nHost: a\n\n"},
	{"HTTP/2 preface", "PRI * HTTP/2.0\n\nSM\n\n"},
	{"small http", "POST /x http/1.1\nHost: a\n\n"},
	{"no version", "POST /x\nHost: a\n\n"},
	{"blank after version", "POST /x HTTP/1.1 \nHost: a\n\n"},

	{"no host", "POST /x HTTP/1.1\nContent-Length: 2\n\n{}"},
	{"empty host", "POST /x HTTP/1.1\nHost:\nContent-Length: 2\n\n{}"},
	{"two hosts", "POST /x HTTP/1.1\nHost: a\nHost: a\n\n"},
	{"host with port", "POST /x HTTP/1.1\nhOST: [::1]:8080\n\n"},
	{"bad host", "POST /x HTTP/1.1\nHost: a b\n\n"},
	{"odd host", "POST /x HTTP/1.1\nHost: a!$&'()*+,;=%41\n\n"},
	{"host with slash", "POST /x HTTP/1.1\nHost: a/b\n\n"},

	{"names", "POST /x HTTP/1.1\nhost: a\ncontent-type: a\nUSER-AGENT: b\nx-MiXeD-123-name: c\n-a-: d\na--b: e\nÄ: f\n\n"},
	{"tokens", "POST /x HTTP/1.1\nHost: a\n!#$%&'*+-.^_`|~09aZ: x\n\n"},
	{"repeated", "POST /x HTTP/1.1\nHost: a\nA: 1\nB: 2\na: 3\nContent-Type: x\nA:\ncontent-type: y\nUser-Agent: u\nUser-Agent: v\nCookie: c\nCookie: d\n\n"},
	{"values", "POST /x HTTP/1.1\nHost: a\nA:x\nB:  \t x y\t \nC:\nD: ü\xff\x80\nE: a:b: c\nF: a\tb\n\n"},
	{"pragma", "POST /x HTTP/1.1\nHost: a\nPragma: no-cache\n\nPOST /x HTTP/1.1\nHost: a\nPragma: no-cache\nCache-Control: x\n\nPOST /x HTTP/1.1\nHost: a\nPragma: x\nPragma: no-cache\n\n"},
	{"no colon", "POST /x HTTP/1.1\nHost: a\nA\n\n"},
	{"no name", "POST /x HTTP/1.1\nHost: a\n: x\n\n"},
	{"blank before colon", "POST /x HTTP/1.1\nHost: a\nContent-Length : 2\n\n{}"},
	{"blank in name", "POST /x HTTP/1.1\nHost: a\nA B: x\n\n"},
	{"bad name", "POST /x HTTP/1.1\nHost: a\nA(: x\n\n"},
	{"control in value", "POST /x HTTP/1.1\nHost: a\nA: x\x00y\n\n"},
	{"delete in value", "POST /x HTTP/1.1\nHost: a\nA: 12345678\x7fy\n\n"},
	{"CR in value", "POST /x HTTP/1.1\nHost: a\nA: x\ry\n\n"},
	{"folded line", "POST /x HTTP/1.1\nHost: a\nA: x\n y\nContent-Length: 2\n\n{}"},
	{"folded with tab", "POST /x HTTP/1.1\nHost: a\nA: x\n\ty\n\n"},
	{"folded first line", "POST /x HTTP/1.1\n Host: a\n\n"},
	{"line feeds alone", "POST /x HTTP/1.1\\nHost: a\\nContent-Length: 2\\n\\n{}"},
	{"one line feed alone", "POST /x HTTP/1.1\nHost: a\\nContent-Length: 2\n\n{}"},
	{"another line feed alone", "POST /x HTTP/1.1\nHost: a\nA: 123\\nContent-Length: 2\n\n{}"},
	{"empty line of a line feed", "POST /x HTTP/1.1\nHost: a\nContent-Length: 2\n\\n{}"},
	{"CR CR LF", "POST /x HTTP/1.1\r\nHost: a\n\n"},
	{"leading line ends", "\n\nPOST /x HTTP/1.1\nHost: a\n\n"},
	{"line ends after a post", "POST /x HTTP/1.1\nHost: a\nContent-Length: 2\n\n{}\n\nPOST /x HTTP/1.1\nHost: a\n\n"},
	{"many line ends after a post", "POST /x HTTP/1.1\nHost: a\nContent-Length: 2\n\n{}\n\n\nPOST /x HTTP/1.1\nHost: a\n\n"},
	{"line ends after a get", "GET /x HTTP/1.1\nHost: a\n\n\nGET /x HTTP/1.1\nHost: a\n\n"},
	{"binary", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"},
	{"binary with a line end", "\x16\x03\x01\x02\x00\x01\x00\x01\\n\xfc\x03\x03"},
	{"nothing", ""},
	{"half a line", "POST /x HT"},
	{"half a head", "POST /x HTTP/1.1\nHost: a\nA"},

	{"length 0", "POST /x HTTP/1.1\nHost: a\nContent-Length: 0\n\n"},
	{"no length", "POST /x HTTP/1.1\nHost: a\n\n{}"},
	{"short body", "POST /x HTTP/1.1\nHost: a\nContent-Length: 3\n\n{}"},
	{"zeros", "POST /x HTTP/1.1\nHost: a\nContent-Length: 002\n\n{}"},
	{"plus", "POST /x HTTP/1.1\nHost: a\nContent-Length: +2\n\n{}"},
	{"minus", "POST /x HTTP/1.1\nHost: a\nContent-Length: -2\n\n{}"},
	{"hex length", "POST /x HTTP/1.1\nHost: a\nContent-Length: 0x2\n\n{}"},
	{"length with text", "POST /x HTTP/1.1\nHost: a\nContent-Length: 2 x\n\n{}"},
	{"length with comma", "POST /x HTTP/1.1\nHost: a\nContent-Length: 2, 2\n\n{}"},
	{"empty length", "POST /x HTTP/1.1\nHost: a\nContent-Length:\n\n{}"},
	{"same length twice", "POST /x HTTP/1.1\nHost: a\nContent-Length: 2\nContent-Length: 2\n\n{}"},
	{"two lengths", "POST /x HTTP/1.1\nHost: a\nContent-Length: 2\nContent-Length: 3\n\n{}"},
	{"huge length", "POST /x HTTP/1.1\nHost: a\nContent-Length: 99999999999999999999\n\n{}"},
	{"greatest length", "POST /ignore HTTP/1.1\nHost: a\nContent-Length: 9223372036854775807\n\n{}"},
	{"great length", "POST /ignore HTTP/1.1\nHost: a\nContent-Length: 999999999999999999\n\n{}"},
	{"length and encoding", "POST /x HTTP/1.1\nHost: a\nContent-Length: 4\nTransfer-Encoding: chunked\n\n0\n\nGET /y HTTP/1.1\nHost: a\n\n"},
	{"encoding and length", "POST /x HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\nContent-Length: 4\n\n0\n\nGET /y HTTP/1.1\nHost: a\n\n"},
	{"blank before the colon of the encoding", "POST /x HTTP/1.1\nHost: a\nContent-Length: 5\nTransfer-Encoding : chunked\n\n0\n\nGET /y HTTP/1.1\nHost: a\n\n"},
	{"tab in the encoding", "POST /x HTTP/1.1\nHost: a\nContent-Length: 5\nTransfer-Encoding:\x0bchunked\n\n0\n\n"},
	{"encoding identity", "POST /x HTTP/1.1\nHost: a\nContent-Length: 2\nTransfer-Encoding: identity\n\n{}"},
	{"encoding twice", "POST /x HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\nTransfer-Encoding: chunked\n\n0\n\n"},
	{"encoding gzip, chunked", "POST /x HTTP/1.1\nHost: a\nTransfer-Encoding: gzip, chunked\n\n0\n\n"},
	{"encoding xchunked", "POST /x HTTP/1.1\nHost: a\nTransfer-Encoding: xchunked\n\n0\n\n"},
	{"encoding in HTTP/1.0", "POST /x HTTP/1.0\nTransfer-Encoding: chunked\n\n0\n\n"},
	{"chunked", "POST /x HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n2\n{}\n3;ext=1\nabc\n0\n\nGET /x HTTP/1.1\nHost: a\n\n"},
	{"trailers", "POST /x HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\nTrailer: A\n\n2\n{}\n0\nA: x\nB: y\n\nGET /x HTTP/1.1\nHost: a\n\n"},
	{"trailer of a length", "POST /x HTTP/1.1\nHost: a\nContent-Length: 2\nTrailer: A\n\n{}"},
	{"bad chunk", "POST /x HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\nzz\n{}\n0\n\n"},
	{"huge chunk", "POST /x HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\nfffffffffffffffff\n{}\n0\n\n"},
	{"chunk without an end", "POST /x HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n2\n{}0\n\n"},
	{"chunk of line feeds", "POST /x HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n2\\n{}\\n0\\n\\n"},
	{"expect", "POST /x HTTP/1.1\nHost: a\nExpect: 100-continue\nContent-Length: 2\n\n{}"},
	{"expect, and nobody reads", "POST /ignore HTTP/1.1\nHost: a\nExpect: 100-continue\nContent-Length: 2\n\n{}"},
	{"expect more", "POST /x HTTP/1.1\nHost: a\nExpect: 200-ok\nContent-Length: 2\n\n{}"},
	{"upgrade", "GET /x HTTP/1.1\nHost: a\nConnection: upgrade\nUpgrade: websocket\n\n"},
	{"h2c", "GET /x HTTP/1.1\nHost: a\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAA\n\n"},

	{"pipelined", "POST /x HTTP/1.1\nHost: a\nContent-Length: 1\n\n1POST /x HTTP/1.1\nHost: b\nContent-Length: 2\n\n22GET /x HTTP/1.1\nHost: c\n\n"},
	{"plain and others in turn", "POST /x HTTP/1.1\nHost: a\nContent-Length: 1\n\n1POST /x HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n1\n2\n0\n\nPOST /x HTTP/1.1\nHost: a\nContent-Length: 1\n\n3"},
	{"then malformed", "POST /x HTTP/1.1\nHost: a\nContent-Length: 1\n\n1oops\n\n"},
	{"close", "POST /x HTTP/1.1\nHost: a\nConnection: close\nContent-Length: 2\n\n{}GET /y HTTP/1.1\nHost: a\n\n"},
	{"CLOSE", "POST /x HTTP/1.1\nHost: a\nConnection: CLOSE\n\nGET /y HTTP/1.1\nHost: a\n\n"},
	{"keep-alive", "POST /x HTTP/1.1\nHost: a\nConnection: Keep-Alive\n\nGET /y HTTP/1.1\nHost: a\n\n"},
	{"close in a list", "POST /x HTTP/1.1\nHost: a\nConnection: te, close\n\nGET /y HTTP/1.1\nHost: a\n\n"},
	{"two connections", "POST /x HTTP/1.1\nHost: a\nConnection: keep-alive\nConnection: close\n\nGET /y HTTP/1.1\nHost: a\n\n"},

	{"body that nobody reads", "POST /ignore HTTP/1.1\nHost: a\nContent-Length: 5\n\n12345GET /x HTTP/1.1\nHost: a\n\n"},
	{"body that is read in part", "POST /part HTTP/1.1\nHost: a\nContent-Length: 5\n\n12345GET /x HTTP/1.1\nHost: a\n\n"},
	{"body that is closed", "POST /shut HTTP/1.1\nHost: a\nContent-Length: 5\n\n12345GET /x HTTP/1.1\nHost: a\n\n"},
	{"no body that is closed", "POST /shut HTTP/1.1\nHost: a\n\nGET /x HTTP/1.1\nHost: a\n\n"},
	{"handler closes", "POST /close HTTP/1.1\nHost: a\nContent-Length: 5\n\n12345GET /x HTTP/1.1\nHost: a\n\n"},
	{"short body that nobody reads", "POST /ignore HTTP/1.1\nHost: a\nContent-Length: 50\n\n12345"},
	{"short body and partly read", "POST /part HTTP/1.1\nHost: a\nContent-Length: 50\n\n12345"},
	{"large body", "POST /x HTTP/1.1\nHost: a\nContent-Length: 300000\n\n" + strings.Repeat("0123456789", 30000) + "GET /x HTTP/1.1\nHost: a\n\n"},
	{"large body that nobody reads", "POST /ignore HTTP/1.1\nHost: a\nContent-Length: 200000\n\n" + strings.Repeat("0123456789", 20000) + "GET /x HTTP/1.1\nHost: a\n\n"},
	{"too large body that nobody reads", "POST /ignore HTTP/1.1\nHost: a\nContent-Length: 300000\n\n" + strings.Repeat("0123456789", 30000) + "GET /x HTTP/1.1\nHost: a\n\n"},
	{"short body that is closed", "POST /shut HTTP/1.1\nHost: a\nContent-Length: 50\n\n12345"},
	{"short and large body", "POST /x HTTP/1.1\nHost: a\nContent-Length: 300000\n\n12345"},
	{"short and large body that is closed", "POST /shut HTTP/1.1\nHost: a\nContent-Length: 300000\n\n12345"},
	{"few bytes after a request", "PUT /x HTTP/1.1\nHost: a\n\n\n"},
	{"half a head after a request", "PUT /x HTTP/1.1\nHost: a\n\nPOST"},
	{"long head", "POST /x HTTP/1.1\nHost: a\nA: " + strings.Repeat("x", 8000) + "\nContent-Length: 2\n\n{}GET /x HTTP/1.1\nHost: a\n\n"},
	{"longer head", "POST /x HTTP/1.1\nHost: a\nA: " + strings.Repeat("x", 20_000) + "\nContent-Length: 2\n\n{}GET /x HTTP/1.1\nHost: a\n\n"},
	{"too long head", "POST /x HTTP/1.1\nHost: a\nA: " + strings.Repeat("x", 80_000) + "\nContent-Length: 2\n\n{}"},
	{"many headers", "POST /x HTTP/1.1\nHost: a\n" + strings.Repeat("a:\n", 2000) + "b:c\n\nGET /x HTTP/1.1\nHost: a\n\n"},
	{"long target", "POST /" + strings.Repeat("x", 9000) + " HTTP/1.1\nHost: a\n\n"},

	{"answers", pipelined("/empty", "/none", "/same", "/odd", "/late", "/fields", "/encoded", "/html", "/x")},
	{"answer that is too short", pipelined("/short", "/x")},
	{"answer that is too long", pipelined("/long", "/x")},
	{"panic", pipelined("/x", "/panic", "/x")},
}

func pipelined(paths ...string) (text string) {
	for _, p := range paths {
		text += fmt.Sprintf("POST %s HTTP/1.1\nHost: a\nContent-Length: 2\n\n{}", p)
	}
	return text
}

// eachByte has a request for each printable byte.
func eachByte(target string) (text string) {
	for c := rune('!'); c < 0x7f; c++ {
		if c != '%' {
			text += fmt.Sprintf("GET "+target+" HTTP/1.1\nHost: a\n\n", c)
		}
	}
	return text
}

// raw returns the bytes that a text of the table stands for.
func raw(text string) []byte {
	parts := strings.Split(text, `\n`)
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "\n", "\r\n")
	}
	return []byte(strings.Join(parts, "\n"))
}

// Whatever a client sends, the handler sees the same requests as with net/http, and the client gets the same bytes, except
// for the order of header lines. There is no list of exceptions.
func TestSameAsNetHTTP(t *testing.T) {
	for _, tt := range requests {
		data := raw(tt.text)
		t.Run(tt.name, func(t *testing.T) {
			compare(t, [][]byte{data})
			if len(data) < 1000 {
				for cut := range data {
					compare(t, [][]byte{data[:cut], data[cut:]})
				}
				single := make([][]byte, len(data))
				for i := range data {
					single[i] = data[i : i+1]
				}
				compare(t, single)
			}
		})
	}
}

func compare(t *testing.T, pieces [][]byte) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		want, got := play(t, false, pieces), play(t, true, pieces)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%.3000q:\ngot from fast server %+v\n%.3000q\nwant from net/http   %+v\n%.3000q", pieces, brief(got.seen), got.out, brief(want.seen), want.out)
		}
	})
}

func brief(all []seen) string { return fmt.Sprintf("%.3000s", fmt.Sprintf("%+v", all)) }

// FuzzSameAsNetHTTP is TestSameAsNetHTTP for whatever bytes, in up to three pieces.
func FuzzSameAsNetHTTP(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, tt := range requests {
		if len(tt.text) < 1000 {
			f.Add(string(raw(tt.text)), uint16(20), uint16(50))
		}
	}
	f.Fuzz(func(t *testing.T, text string, a, b uint16) {
		data := []byte(text)
		i := int(a) % (len(data) + 1)
		k := i + int(b)%(len(data)-i+1)
		compare(t, [][]byte{data[:i], data[i:k], data[k:]})
	})
}
