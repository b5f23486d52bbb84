package template_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/template"
)

func harness() buffertest.TargetHarness {
	var dir string
	reopen := func(*testing.T) driver.Target { return template.New(dir) }
	return buffertest.TargetHarness{
		Open: func(t *testing.T) driver.Target {
			dir = t.TempDir()
			return reopen(t)
		},
		Reopen: reopen,
		Rows:   func(t *testing.T, table string) [][]string { return rows(t, dir, table) },
		Typed:  true,
		Process: &buffertest.Process{
			Place: func(*testing.T) string { return dir },
			Open:  func(_ *testing.T, place string) driver.Target { return template.New(place) },
		},
	}
}

func TestConformance(t *testing.T) { buffertest.Target(t, harness()) }

func TestKills(t *testing.T) { buffertest.Kills(t, harness()) }

// rows reads a table with nothing of the driver but the name of its folder.
func rows(t *testing.T, dir, table string) (all [][]string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(template.Folder(template.New(dir), table), "*.rows"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			for i, cell := range row {
				if cell == "-" {
					row[i] = buffertest.Null
					continue
				}
				text, err := base64.StdEncoding.DecodeString(cell)
				if err != nil {
					t.Fatal(err)
				}
				row[i] = string(text)
			}
			all = append(all, row)
		}
	}
	return all
}
