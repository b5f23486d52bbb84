package forebay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/synctest"
)

func TestSourceWithSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openMemory(t)
		long := strings.Repeat("x", 1000)
		later, now := time.Now().Add(time.Hour), time.Now()
		check := func(secret string, want bool) {
			t.Helper()
			src, ok := e.SourceWithSecret("web", secret)
			if ok != want || ok != (src.ID == "web") {
				t.Errorf("got %.10q: %v, want %v", secret, ok, want)
			}
			if list := e.SourcesWithSecret(secret); (len(list) == 1) != want || want && list[0].ID != "web" {
				t.Errorf("got %.10q: %v, want it: %v", secret, list, want)
			}
		}
		check("", false)
		check("abc", false)
		for _, tt := range []struct {
			got, secret, old string
			until            time.Time
			want             bool
		}{
			{"abc", "abc", "", time.Time{}, true},
			{long, long, "", time.Time{}, true},
			{"abc", "abd", "", time.Time{}, false},
			{"abc", "ab", "", time.Time{}, false},
			{"ab", "abc", "", time.Time{}, false},
			{"", "abc", "", time.Time{}, false},
			{long, long + "x", "", time.Time{}, false},
			{"", "", "", time.Time{}, false}, // a source without a secret has no endpoint
			{"abc", "", "", time.Time{}, false},
			{"abc", "abc", "old", later, true},
			{"old", "abc", "old", later, true},
			{"ol", "abc", "old", later, false},
			{"", "abc", "old", later, false},
			{"old", "abc", "old", now, false},
			{"abc", "abc", "old", now, true},
			{"abc", "abc", "abc", now, true},
			{long, "abc", long, later, true},
		} {
			mustDefine(t, e, forebay.Source{ID: "web", Secret: tt.secret, OldSecret: tt.old, OldSecretUntil: tt.until})
			check(tt.got, tt.want)
			if _, ok := e.SourceWithSecret("other", tt.got); ok {
				t.Errorf("%.10q belongs to no source", tt.got)
			}
		}
		mustDefine(t, e, forebay.Source{ID: "web", Secret: "new", OldSecret: "old", OldSecretUntil: later})
		time.Sleep(time.Hour - time.Nanosecond)
		check("old", true)
		time.Sleep(time.Nanosecond)
		check("old", false)
		check("new", true)
		must(t, e.Remove(t.Context(), "web"))
		check("new", false)
	})
	e, _ := openMemory(t)
	mustDefine(t, e, forebay.Source{ID: "web", Secret: strings.Repeat("x", 48)})
	if n := testing.AllocsPerRun(100, func() { e.SourceWithSecret("web", "0123456789012345678901234567890123456789012345678") }); n != 0 {
		t.Errorf("a comparison allocates %v times, want 0", n)
	}
}

func TestOldSecretIsChecked(t *testing.T) {
	until := time.Now().Add(time.Hour)
	for problem, s := range map[string]forebay.Source{
		"":                       {ID: "web", Secret: "new", OldSecret: "old", OldSecretUntil: until},
		"without a secret":       {ID: "web", OldSecret: "old", OldSecretUntil: until},
		"are given together":     {ID: "web", Secret: "new", OldSecret: "old"},
		"OldSecret: the secret ": {ID: "web", Secret: "new", OldSecretUntil: until},
	} {
		_, err := forebay.Compile(s, forebay.Options{})
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("got %+v: %v, want %q", s, err, problem)
		}
		if err != nil && (strings.Contains(err.Error(), `"old"`) || strings.Contains(err.Error(), `"new"`)) {
			t.Errorf("the error has a secret: %v", err)
		}
	}
}
