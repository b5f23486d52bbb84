package sqlfile_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/sqlfile"
)

func TestChanges(t *testing.T) {
	columns := func(required bool, names ...string) (list []datatype.Column) {
		for _, name := range names {
			list = append(list, datatype.Column{Name: name, Type: datatype.Int64, Required: required})
		}
		return list
	}
	for _, c := range []struct {
		have, want []datatype.Column
		statements []string
	}{
		{nil, columns(true, "a", `b"`), []string{`CREATE TABLE "t.1" ("a" INT64 NOT NULL, "b""" INT64 NOT NULL) STRICT`}},
		{columns(true, "a", "b"), columns(true, "a", "b"), nil},
		{columns(true, "a", "b"), append(columns(true, "a"), columns(false, "b", "c")...), []string{
			`ALTER TABLE "t.1" ALTER COLUMN "b" DROP NOT NULL`, `ALTER TABLE "t.1" ADD COLUMN "c" INT64`,
		}},
	} {
		got := sqlfile.Changes("t.1", c.have, c.want, func(datatype.Type) string { return "INT64" }, " STRICT")
		if !slices.Equal(got, c.statements) {
			t.Errorf("from %v to %v: %q, want %q", c.have, c.want, got, c.statements)
		}
	}
}

func TestCheck(t *testing.T) {
	if err := (sqlfile.File{}).Check(); err != nil {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "rows.db")
	if _, err := sqlfile.Find(path); !os.IsNotExist(err) {
		t.Errorf("absent: %v", err)
	}
	write := func() {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	file, err := sqlfile.Find(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Check(); err != nil {
		t.Error(err)
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := file.Check(); !driver.IsPermanent(err) {
		t.Errorf("moved: %v", err)
	}
	write()
	if err := file.Check(); !driver.IsPermanent(err) {
		t.Errorf("replaced: %v", err)
	}
	if err := os.Rename(path+".moved", path); err != nil {
		t.Fatal(err)
	}
	if err := file.Check(); err != nil {
		t.Errorf("put back: %v", err)
	}
}
