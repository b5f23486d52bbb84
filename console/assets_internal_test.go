package console

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"testing"
)

// The vendored files equal the published files. docs/internals/dependencies.md names their sources.
func TestVendored(t *testing.T) {
	for name, want := range map[string]string{
		"uplot.js":  "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
	} {
		data, err := fs.ReadFile(web, "web/"+name)
		if err != nil {
			t.Fatal(err)
		}
		if name == "uplot.js" {
			_, data, _ = bytes.Cut(data, []byte("\n"))
			data = bytes.TrimSuffix(data, []byte("export default uPlot;\n"))
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s has the hash %x", name, sum)
		}
	}
}

// Everything that a browser loads is small, so that the page opens at once over a bad line.
func TestSize(t *testing.T) {
	total := 0
	for _, a := range loadAssets() {
		total += len(a.data)
	}
	if total > 300<<10 {
		t.Errorf("scripts and styles have %d bytes", total)
	}
	t.Logf("%d bytes", total)
}
