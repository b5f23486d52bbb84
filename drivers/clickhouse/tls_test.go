package clickhouse

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/clickhouse/clickhousetest"
	"github.com/forebay/forebay/internal/certtest"
	"github.com/forebay/forebay/internal/drivertest"
)

// Rows go through TLS to a database whose certificate is known, and to no other one.
func TestTLS(t *testing.T) {
	database := server.Database(t)
	certificate, key := certtest.Pair(t)
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server.Address()}))
	front.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	front.Config.ErrorLog = log.New(io.Discard, "", 0) // about clients that do not trust it
	front.StartTLS()
	defer front.Close()
	address := strings.Replace(server.URL(database), server.Address(), front.Listener.Addr().String(), 1)
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	other, _ := certtest.Pair(t)

	// store creates a table, imports two rows of it, and counts them.
	store := func(address, id string) error {
		target, err := Open(address, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer target.Close()
		tab := table(id, col("a", datatype.String), col("n", datatype.Int64))
		if err := target.Ensure(t.Context(), tab); err != nil {
			return err
		}
		f := newFile("f_"+id, tab, []string{"a \"text\"", "1"}, []string{"", "2"})
		if err := target.Import(t.Context(), f); err != nil {
			return err
		}
		rows, err := target.client.rows(t.Context(), "SELECT toString(count()), toString(sum(n)) FROM "+target.table(id))
		if err == nil && (len(rows) != 1 || rows[0][0] != "2" || rows[0][1] != "3") {
			t.Errorf("%s: got %q, want two rows", id, rows)
		}
		return err
	}
	for id, parameter := range map[string]string{"known": "?ca=" + file(certificate), "unverified": "?tls=skip-verify"} {
		if err := store(address+parameter, id); err != nil {
			t.Errorf("%s: got %v, want no error", id, err)
		}
	}
	var unknown *tls.CertificateVerificationError
	for _, parameter := range []string{"?tls=true", "?ca=" + file(other)} {
		if err := store(address+parameter, "refused"); !errors.As(err, &unknown) || driver.IsPermanent(err) {
			t.Errorf("%s: got %v, want a *tls.CertificateVerificationError that is retried", parameter, err)
		}
	}
	if err := store(address, "refused"); err == nil || !strings.Contains(err.Error(), "400 Bad Request") {
		t.Errorf("without TLS: got %v, want an error", err)
	}
	err = store(strings.Replace(address, url.UserPassword(clickhousetest.User, clickhousetest.Password).String(), clickhousetest.User+":hunter2", 1)+"?ca="+file(certificate), "refused")
	drivertest.Permanent(t, "a wrong password", err, "516", "AUTHENTICATION_FAILED")
	if strings.Contains(fmt.Sprint(err), "hunter2") {
		t.Errorf("got %v, want no password", err)
	}
	if rows := server.Rows(t, "SELECT name FROM system.tables WHERE database = "+literal(database)+" AND name = 'refused'"); len(rows) != 0 {
		t.Errorf("got %d tables of refused connections, want none", len(rows))
	}
}
