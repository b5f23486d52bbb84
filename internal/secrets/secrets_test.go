package secrets

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/synctest"
)

func TestAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", 1000)
		until := time.Now().Add(time.Hour)
		accepts := func(s Secrets, given string) bool {
			d := DigestOf(given)
			return s.Accept(&d)
		}
		check := func(when string, s Secrets, want map[string]bool) {
			t.Helper()
			for given, want := range want {
				if got := accepts(s, given); got != want {
					t.Errorf("%s, the secret %.10q: Accept is %t, want %t", when, given, got, want)
				}
			}
		}
		check("without a secret", Secrets{}, map[string]bool{"": false, "new": false})
		check("with empty secrets", New("", "", until), map[string]bool{"": false, "new": false})
		check("with a long secret", New(long, "", time.Time{}), map[string]bool{long: true, long + "x": false, long[1:]: false})
		s := New("new", "old", until)
		check("before the end of the old secret", s, map[string]bool{"new": true, "old": true, "": false, "ne": false, "newer": false})
		time.Sleep(time.Hour)
		check("at the end of the old secret", s, map[string]bool{"new": true, "old": false, "": false})
	})
}
