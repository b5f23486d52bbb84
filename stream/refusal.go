package stream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/forebay/forebay/stream/internal/wire"
)

// plainRefusal is the end of the headers of a refusal that net/http writes itself. The response of a handler contains a Date.
var plainRefusal = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

// refusalAsJSON returns the JSON form of a refusal that net/http writes itself, in one piece, because it cannot read the head of a request, such
// as "/%zz". No handler sees such a request. refusalAsJSON returns nil for everything else.
func refusalAsJSON(p []byte) []byte {
	const begin = "HTTP/1.1 "
	if len(p) > 512 || len(p) < len(begin)+3 || string(p[:len(begin)]) != begin || (p[len(begin)] != '4' && p[len(begin)] != '5') {
		return nil
	}
	head, text, found := bytes.Cut(p, plainRefusal)
	if !found || bytes.Contains(head, []byte("\r\n")) {
		return nil
	}
	status, err := strconv.Atoi(string(p[len(begin) : len(begin)+3]))
	if err != nil {
		return nil
	}
	e := names.Errorf(status, refusalName(status), "The head of the request cannot be read: %s.", text)
	body, err := json.Marshal(wire.ErrorBody{StatusCode: e.Status, Error: e.Name, Message: e.Message})
	if err != nil {
		return nil
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), len(body), body)
}

func refusalName(status int) string {
	if status == http.StatusRequestHeaderFieldsTooLarge {
		return "headerTooLarge"
	}
	return "badRequest"
}
