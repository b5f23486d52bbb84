package userinfo_test

import (
	"testing"

	"github.com/forebay/forebay/driverkit/userinfo"
)

func TestCheck(t *testing.T) {
	for url, refused := range map[string]bool{
		"postgres://user:secret@host/db":                 false,
		"postgres://user:se@cret@host/db":                false, // the last @ of the authority counts
		"postgres://user:se%40cr%2Fet@host/db":           false,
		"postgres://user:se@cr/et@host/db":               true,
		"postgres://user:se@cr?et@host/db":               true,
		"postgres://user:se@cr#et@host/db":               true,
		"nats://user:12/et@host:4222":                    true,
		"host=h user=u password=a/b@c dbname=d":          false, // no URL
		"postgres://user@host/db?application_name=a%40b": false,
	} {
		if err := userinfo.Check(url); (err != nil) != refused {
			t.Errorf("Check(%q) = %v, want refused %t", url, err, refused)
		}
	}
}
