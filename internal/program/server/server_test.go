package server

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/stream/streamapi"
)

func TestAdminListensToThisMachineAlone(t *testing.T) {
	for addr, ok := range map[string]bool{
		"": true, "127.0.0.1:0": true, "[::1]:8081": true, "localhost:8081": true,
		":8081": false, "0.0.0.0:8081": false, "10.0.0.1:8081": false, "example.com:80": false, "127.0.0.1": false,
	} {
		if err := checkAdmin(addr); (err == nil) != ok {
			t.Errorf("%q: got %v, want (err == nil) == %v", addr, err, ok)
		}
	}
}

// An address that stands for all interfaces is nothing that a client can use in a URL.
func TestURLsOfAllInterfaces(t *testing.T) {
	for addr, host := range map[string]string{":0": "localhost", "0.0.0.0:0": "localhost", "[::]:0": "localhost", "127.0.0.1:0": "127.0.0.1"} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		at := listeners{events: l, api: l}
		if want := fmt.Sprintf("http://%s:%d", host, l.Addr().(*net.TCPAddr).Port); at.eventsURL() != want || at.apiURL() != want {
			t.Errorf("a server at %s has the URLs %s and %s, want %s", addr, at.eventsURL(), at.apiURL(), want)
		}
		at.close()
	}
}

func TestParseNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8":          "[10.0.0.0/8]",
		"10.1.2.3":            "[10.1.2.3/32]",
		"fd00::1, 10.0.0.0/8": "[fd00::1/128 10.0.0.0/8]",
	} {
		if got, err := parseNetworks(text); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: got %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "10.0.0.0/8,", "10.0.0.0/33", "fe80::1%eth0", "proxy"} {
		if got, err := parseNetworks(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

// TestPrintedCommands checks that the printed commands find the token, and that a token that was given is not printed.
func TestPrintedCommands(t *testing.T) {
	for given, want := range map[string]string{"": "X-StorageApi-Token: $(cat 'some dir/token')", "top-secret": "X-StorageApi-Token: $TOKEN"} {
		var out strings.Builder
		m := &management{cfg: Config{Dir: "some dir", Token: given}, cat: new(catalog.Catalog), opts: streamapi.Options{URL: "http://api"}}
		if err := m.tryOut(t.Context(), &out, "ready api=api:2 ingest=in:1"); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); !strings.HasPrefix(text, "ready api=api:2 ingest=in:1\n") || strings.Count(text, want) != 2 || strings.Contains(text, "top-secret") {
			t.Errorf("with the token %q it prints\n%s", given, text)
		}
	}
}
