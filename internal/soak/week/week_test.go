package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/forebay/forebay/drivers/clickhouse/clickhousetest"
	"github.com/forebay/forebay/drivers/mysql/mysqltest"
	"github.com/forebay/forebay/drivers/postgres/pgtest"
	"github.com/forebay/forebay/internal/seedtest"
)

// The test binary stands in for the program of the nodes.
func TestMain(m *testing.M) {
	clickhousetest.Main()
	if os.Getenv(nodeEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// The weeks are short. With PostgreSQL a node is lost, and then the database is killed, away or stands still, unless the machine is too slow for
// a second fault. The weeks of the other databases have no faults here.
func TestWeek(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	t.Run("postgres", func(t *testing.T) {
		play(t, pgtest.ErrMissing, "[12]", "-duration", "30s", "-days", "2", "-faults", "1")
	})
	for target, missing := range map[string]error{"mysql": mysqltest.ErrMissing, "clickhouse": clickhousetest.ErrMissing} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			play(t, missing, "0", "-target", target, "-duration", "5s", "-days", "1", "-faults", "0")
		})
	}
}

// play plays a week with as many faults. missing is the error of a database that is not installed.
func play(t *testing.T, missing error, faults string, args ...string) {
	dir := filepath.Join(t.TempDir(), "week")
	cfg, err := parseConfig(append(args,
		"-rate", "60", "-bad", "0.03", "-poison", "0.01", "-lease", "6s", "-dir", dir, "-out", dir, "-seed", strconv.FormatUint(seedtest.Of(t), 10),
	), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = run(t.Context(), cfg, io.MultiWriter(&out, t.Output()))
	if errors.Is(err, missing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	lastLine := regexp.MustCompile(`\nweek: events=[1-9]\d+ rows=[1-9]\d+ quarantined=\d+ discarded=\d+ unconfirmed=\d+ faults=` + faults + ` quiet=\S+ lost=0 doubled=0 wrong=0\n$`)
	if err != nil || !lastLine.MatchString(out.String()) {
		for _, name := range []string{"a.log", "b.log", "c.log"} {
			log, _ := os.ReadFile(filepath.Join(dir, name))
			t.Logf("%s:\n%s", name, log[max(0, len(log)-20_000):])
		}
		t.Fatal(err)
	}
}
