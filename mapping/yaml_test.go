package mapping

import "testing"

// TestParseYAMLOfNothing checks that a document without a value is null, as in the reference.
func TestParseYAMLOfNothing(t *testing.T) {
	for text, want := range map[string]string{
		`~`: `null`, `null`: `null`, `# a comment`: `null`, ``: `null`, `---`: `[null]`, `a: 1\n---\n`: `[{"a":1},null]`, `a: 1\n---\n# more\n---\nb`: `[{"a":1},null,"b"]`,
		`a: ~`: `{"a":null}`, `[~, 1]`: `[null,1]`,
	} {
		content := "std.manifestJsonMinified(std.parseYaml('" + text + "'))"
		m := mustCompile(t, Template("c", content, RawString()))
		got := m.Cells(&Record{})[0]
		if got.Err != nil || got.Value != want {
			t.Errorf("%s: got %s, %v, want %s", content, got.Value, got.Err, want)
		}
	}
}
