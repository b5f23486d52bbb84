package driver_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/forebay/forebay/driver"
)

// A refused connection and an unknown host are explained with the address first. Other errors stay as they are.
func TestHintUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, refused := http.Get("http://" + closed + "/x?secret=1")
	_, unknown := net.Dial("tcp", "no-such-host.invalid:1")
	for address, err := range map[string]error{closed: refused, "no-such-host.invalid": unknown} {
		if err == nil {
			t.Fatalf("%s: got a connection, want an error", address)
		}
		err = fmt.Errorf("driver: %w", err)
		explained := driver.HintUnreachable(err)
		text := explained.Error()
		if want := "driver: no server responds at " + address + ", "; !strings.HasPrefix(text, want) || strings.Contains(text, "dial tcp") || !errors.Is(explained, err) {
			t.Errorf("got %v, want %q first", explained, want)
		}
	}
	for _, err := range []error{nil, errors.New("x"), &net.OpError{Op: "read", Err: errors.New("reset")}} {
		if explained := driver.HintUnreachable(err); explained != err {
			t.Errorf("got %v, want %v", explained, err)
		}
	}
}
