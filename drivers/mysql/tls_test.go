package mysql

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/mysql/mysqltest"
	"github.com/forebay/forebay/internal/certtest"
	"github.com/forebay/forebay/internal/drivertest"
)

// secured starts a server of its own with TLS, and with further arguments, and returns a database and the file with the certificate of the server.
func secured(t *testing.T, arguments ...string) (own *mysqltest.Server, database, ca string) {
	t.Helper()
	certificate, key := certtest.Pair(t)
	ca = write(t, certificate)
	own = &mysqltest.Server{Arguments: append(arguments, "--ssl-cert="+ca, "--ssl-key="+write(t, key))}
	t.Cleanup(own.Close)
	return own, own.Database(t), ca
}

// write writes a file that the server may read.
func write(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file.pem")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// store creates a table, imports a row, and returns whether the connection is encrypted.
func store(t *testing.T, address, id string) (encrypted bool, err error) {
	t.Helper()
	target, err := Open(address, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	tab := table(id, col("a", datatype.String))
	if err := target.Ensure(t.Context(), tab); err != nil {
		return false, err
	}
	if err := target.Import(t.Context(), newFile("f_"+id, tab, []string{"stored"})); err != nil {
		return false, err
	}
	rows := drivertest.Texts(t, target.db, "SELECT a FROM "+quote(id))
	if len(rows) != 1 || rows[0][0] != "stored" {
		t.Errorf("%s: got the rows %q, want one", address, rows)
	}
	status := drivertest.Texts(t, target.db, "SHOW STATUS LIKE 'Ssl_cipher'")
	return len(status) == 1 && status[0][1] != "", nil
}

// A connection is encrypted as the address says, and no row goes to a server whose certificate or password is wrong.
func TestTLS(t *testing.T) {
	own, database, ca := secured(t)
	other, _ := certtest.Pair(t)
	address := own.URL(database)
	for name, c := range map[string]struct {
		address   string
		encrypted bool
	}{
		"default":            {address, true},
		"preferred":          {address + "?tls=preferred", true},
		"unverified":         {address + "?tls=skip-verify", true},
		"ca":                 {address + "?ca=" + ca, true},
		"false":              {address + "?tls=false", false},
		"preferred, without": {server.URL(server.Database(t)) + "?tls=preferred", false},
	} {
		if encrypted, err := store(t, c.address, "t_"+strings.ReplaceAll(name, " ", "")); err != nil || encrypted != c.encrypted {
			t.Errorf("%s: got encrypted %t, %v, want encrypted %t", name, encrypted, err, c.encrypted)
		}
	}
	var certificate *tls.CertificateVerificationError
	for _, parameter := range []string{"?tls=true", "?ca=" + write(t, other)} {
		if _, err := store(t, address+parameter, "refused"); !errors.As(err, &certificate) || driver.IsPermanent(err) {
			t.Errorf("%s: got %v, want a *tls.CertificateVerificationError that is retried", parameter, err)
		}
	}
	if _, err := store(t, server.URL(server.Database(t))+"?tls=true", "refused"); !errors.Is(err, mysql.ErrNoTLS) {
		t.Errorf("a server without TLS: got %v, want mysql.ErrNoTLS", err)
	}
	_, err := store(t, strings.Replace(address, mysqltest.User+":s3cret", mysqltest.User+":wrong", 1)+"?ca="+ca, "refused")
	drivertest.Permanent(t, "a wrong password", err, "1045", "Access denied")
	if strings.Contains(fmt.Sprint(err), "wrong") {
		t.Errorf("got %v, want no password", err)
	}
	if rows := drivertest.Texts(t, own.Connect(t, database), "SHOW TABLES LIKE 'refused'"); len(rows) != 0 {
		t.Errorf("got the tables %q, want none of a refused connection", rows)
	}
}

// A server that folds names keeps tables with names without capitals. Others are refused.
func TestLowerCaseTableNames(t *testing.T) {
	own, database, ca := secured(t, "--lower-case-table-names=1")
	if _, err := store(t, own.URL(database)+"?ca="+ca, "lower"); err != nil {
		t.Errorf("got %v, want no error", err)
	}
	_, err := store(t, own.URL(database)+"?ca="+ca, "Upper")
	drivertest.Permanent(t, "a name with capitals", err, "lower_case_table_names=1", `"Upper"`)
}
