package console_test

import (
	"testing"

	"github.com/forebay/forebay/console"
)

func TestKnownHost(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST:8082": true, "a.localhost.": true, "127.0.0.1:8082": true, "[::1]:8082": true, "10.0.0.7": true,
		"events.example": true, "Events.Example:443": true, "attacker.example": false, "attacker.example:8082": false, "": false,
		"127.0.0.1.attacker.example": false, "localhost.attacker.example": false,
	} {
		if got := console.KnownHost(host, "events.example"); got != want {
			t.Errorf("KnownHost(%q) = %t, want %t", host, got, want)
		}
	}
	if !console.KnownHost("attacker.example", "*") {
		t.Error("* does not allow every host")
	}
}
