package retention_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/retention"
	"github.com/forebay/forebay/internal/synctest"
)

func column(name string, t datatype.Type) datatype.Column {
	return datatype.Column{Name: name, Type: t}
}

func quote(name string) string { return "[" + name + "]" }

// The first column that a row has tells its time, and a day is over at its end.
func TestCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is 2000-01-01T00:00:00Z
		required := column("At", datatype.Timestamp)
		required.Required = true
		for name, tc := range map[string]struct {
			columns []datatype.Column
			want    string
		}{
			"one":      {[]datatype.Column{column("x", datatype.Int64), column("at", datatype.Timestamp)}, "([at] < '1999-12-30T22:00:00.000000Z')"},
			"date":     {[]datatype.Column{column("day", datatype.Date)}, "([day] < '1999-12-30')"},
			"several":  {[]datatype.Column{column("day", datatype.Date), column("at", datatype.Timestamp)}, "([at] < '1999-12-30T22:00:00.000000Z' OR [at] IS NULL AND [day] < '1999-12-30')"},
			"required": {[]datatype.Column{column("day", datatype.Date), required}, "([At] < '1999-12-30T22:00:00.000000Z')"},
			"no time":  {[]datatype.Column{column("at", datatype.Untyped), column("day", datatype.String)}, ""},
			"none":     {[]datatype.Column{column("other", datatype.Timestamp)}, ""},
		} {
			rule, err := retention.New(26*time.Hour, []string{"at", "day"})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := rule.Sweep(driver.Table{ID: "t", Columns: tc.columns}, quote, func(c string) error { got = c; return nil }); err != nil || got != tc.want {
				t.Errorf("%s: got %s, %v, want %s", name, got, err, tc.want)
			}
		}
	})
}

// A table is looked through again after a part of the time for which its rows stay, or sooner if that has failed.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule, err := retention.New(24*time.Hour, []string{"at"})
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		var fail error
		sweep := func(table string) error {
			return rule.Sweep(driver.Table{ID: table, Columns: []datatype.Column{column("at", datatype.Timestamp)}}, quote, func(string) error { calls++; return fail })
		}
		expect := func(want int) {
			t.Helper()
			if err := sweep("a"); !errors.Is(err, fail) && err != nil || calls != want {
				t.Errorf("got %d calls, %v, want %d", calls, err, want)
			}
		}
		expect(1)
		expect(1)
		time.Sleep(59 * time.Minute)
		expect(1)
		if err := sweep("b"); err != nil || calls != 2 {
			t.Errorf("got %d calls for two tables, %v, want 2, no error", calls, err)
		}
		time.Sleep(time.Minute)
		fail = errors.New("the table is locked")
		expect(3)
		expect(3)
		time.Sleep(time.Minute)
		expect(4)
		fail = nil
		time.Sleep(time.Minute)
		expect(5)
		time.Sleep(59 * time.Minute)
		expect(5)
	})
}

func TestNew(t *testing.T) {
	for _, tc := range []struct {
		keepFor time.Duration
		by      []string
		want    string
	}{{-1, nil, "must not be negative"}, {1, nil, "needs KeepBy"}, {0, []string{"at"}, "which is 0"}} {
		if _, err := retention.New(tc.keepFor, tc.by); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v: %v, want %q", tc, err, tc.want)
		}
	}
	rule, err := retention.New(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := rule.Sweep(driver.Table{}, quote, func(string) error { return errors.New("called") }); err != nil {
		t.Error(err)
	}
}
