package catalog

import (
	"testing"

	"github.com/forebay/forebay/trigger"
)

// TestValidationTexts checks the texts that differ from the texts of the published service. See docs/internals/compatibility.md.
func TestValidationTexts(t *testing.T) {
	all := newKeys(trigger.Import())
	for name, want := range map[string]string{
		encoding + "compression.gzip.level":     "required,min=1,max=9",
		encoding + "compression.gzip.blockSize": "required,minBytes=16KB,maxBytes=100MB",
		encoding + "maxChunkSize":               "required,minBytes=64KB,maxBytes=1MB",
	} {
		if got := all.named(name).validation(); got != want {
			t.Errorf("the validation of %s is %q, want %q", name, got, want)
		}
	}
}
