package natsserver

import "testing"

func TestDeaf(t *testing.T) {
	for _, test := range []struct {
		name                   string
		servers, silent, heard int
		want                   bool
	}{
		{"all are there", 3, 0, 2, false},
		{"one is lost", 3, 1, 1, false},
		{"both others are lost", 3, 2, 0, true},
		{"one was replaced under a different name, and then another one is lost", 3, 2, 1, false},
		{"two were added, and the first two are lost", 3, 2, 2, false},
		{"the others have an earlier release", 3, 0, 0, false},
		{"one of five hears one", 5, 3, 1, true},
		{"one of five hears two", 5, 2, 2, false},
	} {
		if got := isDeaf(test.servers, test.silent, test.heard); got != test.want {
			t.Errorf("%s: isDeaf(%d servers, %d silent, %d heard) = %t, want %t", test.name, test.servers, test.silent, test.heard, got, test.want)
		}
	}
}
