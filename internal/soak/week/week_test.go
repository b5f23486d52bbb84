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

	"github.com/forebay/forebay/drivers/postgres/pgtest"
	"github.com/forebay/forebay/internal/seedtest"
)

// The test binary stands in for the program of the nodes.
func TestMain(m *testing.M) {
	if os.Getenv(nodeEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

var lastLine = regexp.MustCompile(`\nweek: events=[1-9]\d+ rows=[1-9]\d+ quarantined=\d+ discarded=\d+ unconfirmed=\d+ faults=[12] quiet=\S+ lost=0 doubled=0 wrong=0\n$`)

// In a short week a node is lost, and then PostgreSQL is restarted, away or stands still, unless the machine is too slow for a second fault.
func TestWeek(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	dir := filepath.Join(t.TempDir(), "week")
	cfg, err := parseConfig([]string{
		"-duration", "30s", "-days", "2", "-faults", "1", "-rate", "60", "-bad", "0.03", "-poison", "0.01", "-lease", "6s",
		"-dir", dir, "-out", dir, "-seed", strconv.FormatUint(seedtest.Of(t), 10),
	}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = run(t.Context(), cfg, io.MultiWriter(&out, t.Output()))
	if errors.Is(err, pgtest.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil || !lastLine.MatchString(out.String()) {
		for _, name := range []string{"a.log", "b.log", "c.log"} {
			log, _ := os.ReadFile(filepath.Join(dir, name))
			t.Logf("%s:\n%s", name, log[max(0, len(log)-20_000):])
		}
		t.Fatal(err)
	}
}
